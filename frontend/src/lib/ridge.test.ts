import { describe, expect, it } from "vitest";
import { axisFor, binsAt, brightest, commonHeight, densities, lengthOf, profile, type HistogramSeries } from "./ridge";
import type { ValueScale } from "./value-axis";

type Rows = [lower: number, upper: number, count: number][];

function series(...histograms: Rows[]): HistogramSeries {
  const rows = histograms.flat();
  let end = 0;
  return {
    offsets: Int32Array.from([0, ...histograms.map((each) => (end += each.length))]),
    lower: Float64Array.from(rows, (row) => row[0]),
    upper: Float64Array.from(rows, (row) => row[1]),
    counts: Float64Array.from(rows, (row) => row[2]),
  };
}

const SERIES = series(
  [
    [-1, -0.5, 3],
    [0, 0, 10],
    [0.25, 0.5, 7],
  ],
  [],
  [
    [1e-9, 2e-9, 1],
    [2, 4, 5],
  ],
);

function all(of: HistogramSeries): ReturnType<typeof binsAt>[] {
  return Array.from({ length: lengthOf(of) }, (_, i) => binsAt(of, i));
}

it("slices histograms", () => {
  expect(lengthOf(SERIES)).toBe(3);
  expect([...binsAt(SERIES, 2).counts]).toEqual([1, 5]);
  expect(binsAt(SERIES, 1).counts.length).toBe(0);
});

describe.each(["linear", "symlog", "log"] as ValueScale[])("on a %s axis", (scale) => {
  const axis = axisFor(all(SERIES), [], scale, false)?.axis ?? null;
  if (axis === null) throw new Error("there are values");

  it("all values have a place", () => {
    expect([axis.low, axis.high]).toEqual([-1, 4]);
  });

  it("densities of a histogram add up to one, and to nothing for an empty one", () => {
    for (const rows of [1, 10, 333]) {
      const shares = densities(SERIES, axis, rows);
      const sums = [0, 1, 2].map((i) => shares.subarray(i * rows, (i + 1) * rows).reduce((a, b) => a + b, 0));
      expect(sums[0]).toBeCloseTo(1, 5);
      expect(sums[1]).toBe(0);
      expect(sums[2]).toBeCloseTo(1, 5);
      expect(brightest(shares)).toBeGreaterThan(0);
    }
  });

  it("a profile's area is the share of values other than zero", () => {
    const { x, height } = profile(binsAt(SERIES, 0), axis, 2000);
    const area = height.reduce((sum, each, i) => sum + each * ((x[i + 1] ?? 0) - (x[i] ?? 0)), 0);
    expect(x.length).toBe(height.length + 1);
    expect(area).toBeCloseTo(0.5, 6);
    for (let i = 1; i < x.length; i++) expect(x[i]).toBeGreaterThanOrEqual(x[i - 1] ?? 0);
  });
});

it("has no axis for zeros alone, or for nothing", () => {
  expect(axisFor(all(series([[0, 0, 5]])), [], "log", false)).toBe(null);
  expect(axisFor([], [], "linear", false)).toBe(null);
  expect(axisFor(all(series([])), [], "linear", false)).toBe(null);
});

it("does not show more decades than can be read", () => {
  const fitted = axisFor(
    all(
      series([
        [1e-40, 2e-40, 9],
        [1, 2, 1],
      ]),
    ),
    [],
    "log",
    false,
  );
  expect(fitted?.axis.threshold).toBeCloseTo(2e-12);
});

it("holds the histogram that is shown, and most of the others", () => {
  const calm = Array.from({ length: 40 }, (): Rows => [[-1, 1, 5]]);
  const others = all(series(...calm, [[-1e9, 1e9, 5]]));
  const usual = axisFor(all(series([[-3, 2, 1]])), others, "linear", false);
  expect([usual?.axis.low, usual?.axis.high, usual?.beyond?.high]).toEqual([-3, 1 + 1, 1e9]);
  const full = axisFor([], others, "linear", true);
  expect([full?.axis.high, full?.beyond]).toEqual([1e9, null]);
});

it("takes the height of most profiles, not of the one spike", () => {
  const flat = Array.from({ length: 20 }, () => ({ x: Float64Array.of(0, 1), height: Float64Array.of(1) }));
  expect(commonHeight([...flat, { x: Float64Array.of(0, 1), height: Float64Array.of(500) }])).toBe(1);
  expect(commonHeight([])).toBe(1);
});
