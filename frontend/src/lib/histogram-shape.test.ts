import { describe, expect, it } from "vitest";
import { barsOf, cellAt, differences, heightAxis, heights, type Histogram } from "./histogram-shape";
import { valueAxis } from "./value-axis";

function histogram(rows: [lower: number, upper: number, count: number][], nonfinite = 0): Histogram {
  const bins = {
    lower: Float64Array.from(rows, (row) => row[0]),
    upper: Float64Array.from(rows, (row) => row[1]),
    counts: Float64Array.from(rows, (row) => row[2]),
  };
  return { bins, nonfinite };
}

const axis = valueAxis("linear", 0, 10, 0);
const A = histogram(
  [
    [0, 0, 50],
    [1, 2, 30],
    [2, 4, 10],
    [9, 9.001, 5],
  ],
  5,
);

describe("heights", () => {
  const bars = barsOf([A], axis, 100);

  it("are exact counts, of every value but the zeros, which stand beside", () => {
    expect([...heights(bars, 0, "count", 100)]).toEqual([30, 10, 5]);
    expect([bars.zeros[0], bars.totals[0]]).toEqual([50, 100]);
  });

  it("are shares of all values, non-finite ones among them", () => {
    expect([...heights(bars, 0, "share", 100)]).toEqual([0.3, 0.1, 0.05]);
  });

  it("are densities with areas that are shares, where a pixel is the least width", () => {
    const densities = heights(bars, 0, "density", 100);
    expect(densities[0]).toBeCloseTo(3);
    expect(densities[1]).toBeCloseTo(0.5);
    expect(densities[2]).toBeCloseTo(5);
  });

  it("are 1 where values are spread evenly over the axis", () => {
    const even = barsOf(
      [
        histogram([
          [0, 5, 7],
          [5, 10, 7],
        ]),
      ],
      axis,
      100,
    );
    heights(even, 0, "density", 100).forEach((height) => expect(height).toBeCloseTo(1));
  });
});

describe("two histograms", () => {
  it("stand on common cells without loss", () => {
    const bars = barsOf(
      [
        A,
        histogram([
          [1, 2, 3],
          [4, 5, 1],
        ]),
      ],
      axis,
      100,
    );
    expect(bars.approximate).toBe(false);
    expect([...heights(bars, 0, "count", 100)]).toEqual([30, 10, 0, 5]);
    expect([...heights(bars, 1, "count", 100)]).toEqual([3, 0, 1, 0]);
    expect([...differences(heights(bars, 0, "count", 100), heights(bars, 1, "count", 100))]).toEqual([27, 10, -1, 5]);
  });

  it("of different grids are cut, keep their totals, and say so", () => {
    const bars = barsOf([A, histogram([[1.5, 3, 30]])], axis, 1000);
    expect(bars.approximate).toBe(true);
    const sum = heights(bars, 1, "count", 1000).reduce((total, count) => total + count, 0);
    expect(sum).toBeCloseTo(30);
  });
});

describe("height axis", () => {
  it("begins at zero and holds the highest", () => {
    const scale = heightAxis([Float64Array.of(3, 70)], false);
    expect(scale.place(0)).toBe(0);
    expect(scale.place(70)).toBeLessThan(1);
    expect(scale.ticks(5)[0]).toBe(0);
  });

  it("shows a single count on a logarithmic axis beside a million", () => {
    const scale = heightAxis([Float64Array.of(1, 1e6, 0)], true);
    expect(scale.place(1)).toBeGreaterThan(0.02);
    expect(scale.place(0)).toBe(0);
    expect(scale.ticks(10)).toContain(1000);
    expect(scale.ticks(3).length).toBeLessThanOrEqual(3);
  });

  it("exists without bars", () => {
    expect(heightAxis([], false).place(0)).toBe(0);
    expect(heightAxis([new Float64Array(3)], true).ticks(4).length).toBeGreaterThan(0);
  });
});

it("finds the bar under the pointer, also a thin one beside it", () => {
  const { cells } = barsOf([A], axis, 100);
  expect(cellAt(cells, 15, 0)).toBe(0);
  expect(cellAt(cells, 92, 4)).toBe(2);
  expect(cellAt(cells, 60, 4)).toBe(-1);
});
