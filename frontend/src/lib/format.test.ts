import { describe, expect, it } from "vitest";
import { formatAge, formatElapsed } from "./elapsed";
import {
  byteIncrements,
  formatBytes,
  formatCount,
  formatNumber,
  formatPercent,
  formatSeconds,
  formatShort,
} from "./format";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [-0, "0"],
    [0.30000000000000004, "0.3"],
    [Math.LN10, "2.303"],
    [-1.5, "−1.5"],
    [1285, "1285"],
    [12345.6, "12\u202f346"],
    [99999, "99\u202f999"],
    [123456, "1.23e5"],
    [0.00012, "1.2e−4"],
    [1e-30, "1e−30"],
    [-4.21e30, "−4.21e30"],
    [NaN, "NaN"],
    [Infinity, "+Inf"],
    [-Infinity, "−Inf"],
    [null, "–"],
    [undefined, "–"],
  ])("%s reads %s", (value, text) => expect(formatNumber(value)).toBe(text));

  it("keep their size with few digits", () => expect(formatNumber(1285, 3)).toBe("1\u202f285"));

  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1\u202f000"],
    [-1234567, "−1\u202f234\u202f567"],
    [NaN, "NaN"],
    [null, "–"],
  ])("%s counted reads %s", (value, text) => expect(formatCount(value)).toBe(text));

  it.each([
    [5, "5"],
    [0.25, "0.25"],
    [1500, "1.5k"],
    [48213, "48.2k"],
    [999999, "1M"],
    [2e9, "2G"],
    [-20000, "−20k"],
  ])("%s on an axis reads %s", (value, text) => expect(formatShort(value)).toBe(text));

  it.each([
    [0, "0 %"],
    [0.0123, "1.2 %"],
    [0.379, "37.9 %"],
    [1, "100 %"],
    [null, "–"],
  ])("%s as a share reads %s", (value, text) => expect(formatPercent(value)).toBe(text));
});

describe("bytes and times", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [9.08 * 1024 ** 3, "9.08 GiB"],
    [NaN, "NaN"],
  ])("%s bytes read %s", (value, text) => expect(formatBytes(value)).toBe(text));

  it("have ticks at round numbers", () => {
    expect(
      byteIncrements()
        .filter((each) => each >= 1024 ** 3 && each <= 10 * 1024 ** 3)
        .map(formatBytes),
    ).toEqual(["1 GiB", "2 GiB", "5 GiB", "10 GiB"]);
  });

  it.each([
    [0, "0 s"],
    [4.2e-5, "42 µs"],
    [0.0497, "49.7 ms"],
    [1.5, "1.5 s"],
    [75, "1 min 15 s"],
    [7260, "2 h 1 min"],
    [172800, "2 d"],
  ])("%s seconds read %s", (value, text) => expect(formatSeconds(value)).toBe(text));

  it.each([
    [0, "0 s"],
    [4.5, "4.5 s"],
    [125, "2:05"],
    [3723, "1:02:03"],
    [90061, "1 d 1:01:01"],
    [NaN, "–"],
  ])("%s seconds since the start read %s", (value, text) => expect(formatElapsed(value)).toBe(text));

  it.each([
    [-3, "0 s"],
    [59.9, "59 s"],
    [60, "1 min"],
    [7200, "2 h"],
    [200000, "2 d"],
  ])("%s seconds ago reads %s", (value, text) => expect(formatAge(value)).toBe(text));

  it("are rounded to the next unit without a power of ten", () => {
    expect(formatSeconds(0.0009999999)).toBe("1 ms");
    expect(formatSeconds(0.99999)).toBe("1 s");
    expect(formatSeconds(119.7)).toBe("2 min 0 s");
    expect(formatSeconds(7199)).toBe("2 h 0 min");
    expect(formatBytes(999.8 * 1024)).toBe("1000 KiB");
    expect(formatPercent(9.999)).toBe("1000 %");
    expect(formatNumber(9999.7)).toBe("10000");
  });
});
