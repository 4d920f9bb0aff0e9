import { describe, expect, it } from "vitest";
import { divergingRamp, sequentialRamp } from "./colourmap";
import {
  columnAt,
  columnEnds,
  EMPTY,
  groupValues,
  heatColours,
  paintRow,
  pixelColumns,
  rowWords,
  STRIPED,
} from "./heat";
import { heatScale } from "./heat-scale";

const colours = heatColours(sequentialRamp("dark"), "dark");

function steps(...values: number[]): Float64Array {
  return Float64Array.from(values);
}

describe("columns across pixels", () => {
  it("reach up to the next sample", () => {
    expect([...columnEnds(steps(0, 10, 20), steps(0, 10, 20))]).toEqual([10, 20, 30]);
  });

  it("leave a hole where samples are missing", () => {
    expect([...columnEnds(steps(0, 10, 20, 90, 100), steps(0, 10, 20, 90, 100))]).toEqual([10, 20, 30, 100, 110]);
    const { from, to } = pixelColumns(steps(0, 10, 20, 90), steps(0, 10, 20, 90), { first: 0, last: 99 }, 100);
    expect([from[25], to[25]]).toEqual([2, 3]);
    expect(from[60]).toBe(to[60]);
  });

  it("hold a sample where a training is looked at ever more rarely", () => {
    const first = steps(0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 14, 18, 23, 90);
    expect([...columnEnds(first, first)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 18, 23, 24, 91]);
  });

  it("show every column, also when there are more than pixels", () => {
    const many = Float64Array.from({ length: 1000 }, (_, i) => i * 3);
    for (const width of [7, 333, 1000, 1801]) {
      const { from, to } = pixelColumns(many, many, { first: 0, last: 2999 }, width);
      const shown = new Set<number>();
      from.forEach((start, x) => {
        for (let i = start; i < (to[x] ?? 0); i++) shown.add(i);
      });
      expect(shown.size).toBe(1000);
    }
  });

  it("are cut at the window", () => {
    const { from, to } = pixelColumns(steps(0, 50, 100), steps(49, 99, 149), { first: 60, last: 69 }, 10);
    expect([...from]).toEqual(Array(10).fill(1));
    expect([...to]).toEqual(Array(10).fill(2));
  });
});

describe("colours of a row", () => {
  const scale = heatScale("log", new Float32Array([1e-3, 1]), "full");

  it("tell missing, zero, non-finite and measured values apart", () => {
    const words = rowWords(new Float32Array([NaN, 0, Infinity, 0.1, 1]), null, scale, colours);
    expect(words[0]).toBe(EMPTY);
    expect(words[1]).toBe(colours.zero);
    expect(words[2]).toBe(STRIPED);
    expect(colours.ramp).toContain(words[3]);
    expect(words[4]).toBe(colours.ramp.at(-1));
  });

  it("are stripes wherever a share of the values is not finite", () => {
    const words = rowWords(new Float32Array([0.5, 0.5, NaN]), new Float32Array([0, 1e-9, 1]), scale, colours);
    expect([...words].map((word) => word === STRIPED)).toEqual([false, true, true]);
  });

  it("have stripes that no ramp contains", () => {
    for (const theme of ["light", "dark"] as const) {
      const ramps = [sequentialRamp(theme), divergingRamp(theme)];
      for (const ramp of ramps) expect(ramp).not.toContain(heatColours(ramp, theme).stripes[0]);
    }
  });
});

it("paints within its rows only, and lets stripes win a shared pixel", () => {
  const picture = { words: new Uint32Array(4 * 6), width: 4, height: 6 };
  const columns = { from: Int32Array.of(0, 1, 2, 2), to: Int32Array.of(1, 3, 3, 2) };
  paintRow(picture, 2, 4, columns, Uint32Array.of(0xff000011, STRIPED, 0xff000022), colours, 2);
  expect(picture.words.subarray(0, 8).every((word) => word === 0)).toBe(true);
  expect(picture.words.subarray(16).every((word) => word === 0)).toBe(true);
  expect(picture.words[8]).toBe(0xff000011);
  expect(colours.stripes).toContain(picture.words[9]);
  expect(picture.words[10]).toBe(0xff000022);
  expect(picture.words[11]).toBe(0);
  paintRow(picture, -5, 99, columns, Uint32Array.of(7, 7, 7), colours, 2);
  expect(picture.words[20]).toBe(7);
});

it("lets a group stand for the farthest or the least of its tensors, passing missing samples over", () => {
  const values = new Float32Array([1, NaN, -2, NaN, -3, NaN, 1, 5, NaN, NaN, 0, -9]);
  expect([...groupValues(values, 4, 0, 3, "farthest")]).toEqual([-3, NaN, -2, -9]);
  expect([...groupValues(values, 4, 0, 3, "least")]).toEqual([-3, NaN, -2, -9]);
  expect([...groupValues(values, 4, 0, 2, "least")]).toEqual([-3, NaN, -2, 5]);
});

it("finds the column of a step", () => {
  const first = steps(0, 10, 20);
  expect([-1, 0, 9, 10, 25].map((step) => columnAt(first, step))).toEqual([-1, 0, 0, 1, 2]);
});
