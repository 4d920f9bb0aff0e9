import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { decodeColumns, WireError } from "./columns";
import { QUANTILES, type Answer } from "./types";

/** Written by the server's own code: tests/viewer/test_page_wire.py compares it with what that gives today. */
function sample(): ArrayBuffer {
  const file = readFileSync(new URL("./columns.sample.bin", import.meta.url));
  return file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer;
}

function answer<What extends Answer["what"]>(what: What, index: number): Extract<Answer, { what: What }> {
  const found = decodeColumns(sample())[index];
  expect(found?.what).toBe(what);
  return found as Extract<Answer, { what: What }>;
}

describe("the body of the columns route", () => {
  it("has one answer for each query, also for what failed", () => {
    const kinds = decodeColumns(sample()).map((each) => each.what);
    expect(kinds).toEqual([
      "scalars",
      "heat",
      "failed",
      "bands",
      "histogram",
      "histogram",
      "histograms",
      "table",
      "processes",
    ]);
    expect(answer("failed", 2).error).toBe("There is no run x.");
  });

  it("gives scalars by name, with NaN and infinities as numbers", () => {
    const { run, version, level, scalars } = answer("scalars", 0);
    expect([run, version, level]).toEqual(["</script>\u202e x", 7, 2]);
    const loss = scalars.get("loss/é");
    expect([...scalars.keys()]).toEqual(["loss/é"]);
    expect([...(loss?.mean ?? [])]).toEqual([2.5, NaN, 0.125]);
    expect([...(loss?.end ?? [])]).toEqual([2, -Infinity, Infinity]);
    expect([...(loss?.bad ?? [])]).toEqual([0, 4, 1]);
    expect([...(loss?.samples ?? [])]).toEqual([NaN, 256, 512]);
  });

  it("gives heat row by row", () => {
    const { names, first, last, values } = answer("heat", 1);
    expect(names).toEqual(["a.weight", "constructor"]);
    expect([[...first], [...last]]).toEqual([
      [0, 4, 8],
      [3, 7, 11],
    ]);
    expect([...values]).toEqual([1, 2, NaN, 4, Infinity, 6]);
  });

  it("gives quantiles and statistics of bands", () => {
    const { quantiles, statistics } = answer("bands", 3);
    expect(quantiles.length).toBe(3 * QUANTILES.length);
    expect([...quantiles.subarray(9, 12)]).toEqual([9, 10, 11]);
    expect([...(statistics.get("norm") ?? [])]).toEqual([1, NaN, 3]);
  });

  it("gives a histogram with its numbers, and null where there is no sample", () => {
    const { histogram } = answer("histogram", 4);
    expect(histogram).toMatchObject({
      first: 4,
      last: 7,
      merged: 4,
      nan: 2,
      pos_inf: 1,
      zeros: 5,
      units_active: 3,
      units: null,
    });
    expect(histogram?.statistics).toEqual(
      new Map([
        ["mean", 0.5],
        ["std", NaN],
        ["max", Infinity],
      ]),
    );
    expect([...(histogram?.counts ?? [])]).toEqual([3, 0, 9]);
    expect(answer("histogram", 5).histogram).toBeNull();
  });

  it("gives histograms over time and tables", () => {
    const ridge = answer("histograms", 6);
    expect([[...ridge.offsets], [...ridge.nonfinite]]).toEqual([
      [0, 1, 1, 3],
      [0, 0, 2],
    ]);
    const table = answer("table", 7);
    expect([table.names, [...table.steps]]).toEqual([
      ["a", "b", "c"],
      [0, 4, 8],
    ]);
  });

  it("gives the memory of processes over time", () => {
    const { time, most_bytes: most, processes } = answer("processes", 8);
    expect([[...time], [...most], [...processes]]).toEqual([
      [1.7e9, 1.7e9 + 4, 1.7e9 + 8],
      [2 ** 31, 2 ** 32, 2 ** 33],
      [1, 5, 5],
    ]);
  });

  it("is refused in a sentence when it is cut off", () => {
    const body = sample();
    for (const length of [0, 3, 40, body.byteLength - 8]) {
      expect(() => decodeColumns(body.slice(0, length))).toThrow(WireError);
    }
  });
});
