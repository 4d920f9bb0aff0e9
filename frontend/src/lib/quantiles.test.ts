import { expect, it } from "vitest";
import { largestGap, magnitudeQuantile, quantilesOf, shareUpTo } from "./quantiles";
import type { Bins } from "./rebin";

function bins(rows: [lower: number, upper: number, count: number][]): Bins {
  return {
    lower: Float64Array.from(rows, (row) => row[0]),
    upper: Float64Array.from(rows, (row) => row[1]),
    counts: Float64Array.from(rows, (row) => row[2]),
  };
}

const EVEN = bins([
  [0, 1, 10],
  [1, 2, 10],
  [4, 6, 20],
]);

it("finds quantiles inside bins, and the extremes at their edges", () => {
  expect(quantilesOf(EVEN, [0, 0.125, 0.25, 0.5, 0.75, 1])).toEqual([0, 0.5, 1, 2, 5, 6]);
});

it("has no quantile of nothing", () => {
  expect(quantilesOf(bins([]), [0.5])).toEqual([NaN]);
});

it("survives bins as wide as all doubles", () => {
  expect(quantilesOf(bins([[-1.7e308, 1.7e308, 4]]), [0.5])).toEqual([0]);
  expect(shareUpTo(bins([[-1.7e308, 1.7e308, 4]]), 0)).toBe(0.5);
});

it("takes a share back from a value", () => {
  for (const share of [0.1, 0.3, 0.9]) {
    expect(shareUpTo(EVEN, quantilesOf(EVEN, [share])[0] ?? NaN)).toBeCloseTo(share);
  }
  expect(shareUpTo(EVEN, -1)).toBe(0);
  expect(shareUpTo(EVEN, 7)).toBe(1);
});

it("measures how far two distributions are apart", () => {
  expect(largestGap(EVEN, EVEN)).toBe(0);
  expect(largestGap(bins([[0, 1, 3]]), bins([[5, 6, 700]]))).toBe(1);
  expect(
    largestGap(
      bins([
        [0, 1, 1],
        [1, 2, 1],
      ]),
      bins([
        [0, 1, 3],
        [1, 2, 1],
      ]),
    ),
  ).toBeCloseTo(0.25);
});

it("ranks magnitudes of both signs, leaving zeros out", () => {
  const both = bins([
    [-8, -4, 10],
    [-0.5, -0.25, 10],
    [0, 0, 1000],
    [1, 2, 20],
  ]);
  expect(magnitudeQuantile(both, 0)).toBe(0.25);
  expect(magnitudeQuantile(both, 0.5)).toBe(1);
  expect(magnitudeQuantile(both, 1)).toBe(4);
  expect(magnitudeQuantile(bins([[0, 0, 5]]), 0.5)).toBe(NaN);
});
