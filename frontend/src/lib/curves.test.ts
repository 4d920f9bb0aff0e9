import { describe, expect, it } from "vitest";
import type { ScalarColumns } from "../wire/types";
import { curveOf, rangeOf, zoomOf } from "./curves";
import { extentX, extentY } from "./extent";
import { interpolate, lowerBound, nearestIndex } from "./nearest";
import { smoothed } from "./smoothing";

const of = (...values: number[]): Float64Array => Float64Array.from(values);

/** Buckets of ten steps of half a second and 64 samples, with these means. */
function columns(mean: number[], bad: number[] = mean.map(() => 0)): ScalarColumns {
  const step = Float64Array.from(mean, (_, index) => index * 10);
  const values = Float64Array.from(mean);
  return {
    step,
    last: step.map((each) => each + 9),
    time: step.map((each) => 1000 + each / 2),
    samples: step.map((each) => (each + 10) * 64),
    mean: values,
    min: values.map((each) => each - 1),
    max: values.map((each) => each + 1),
    bad: Float64Array.from(bad),
    end: values,
    count: values.map(() => 10),
  };
}

describe("smoothing", () => {
  it("does nothing with weight 0 and begins at the first value", () => {
    const values = of(4, 2, 8);
    expect(smoothed(values, 0)).toBe(values);
    expect(smoothed(values, 0.9)[0]).toBeCloseTo(4);
  });

  it("is the mean of all so far, the newer the heavier", () => {
    const [, second, third] = smoothed(of(1, 3, 5), 0.5);
    expect(second).toBeCloseTo((1 * 0.5 + 3) / 1.5);
    expect(third).toBeCloseTo((1 * 0.25 + 3 * 0.5 + 5) / 1.75);
  });

  it("leaves a constant as it is and goes on after NaN and infinities", () => {
    expect([...smoothed(of(2, NaN, 2, Infinity, 2), 0.95)].map((each) => Math.round(each * 1e9) / 1e9)).toEqual([
      2,
      NaN,
      2,
      Infinity,
      2,
    ]);
  });
});

describe("searching", () => {
  it("finds places, neighbours and values between", () => {
    const xs = of(0, 10, 20);
    expect([-1, 0, 1, 20, 21].map((x) => lowerBound(xs, x))).toEqual([0, 0, 1, 2, 3]);
    expect([-9, 4, 6, 15, 99].map((x) => nearestIndex(xs, x))).toEqual([0, 0, 1, 1, 2]);
    expect(nearestIndex(of(), 3)).toBe(-1);
    expect([-5, 5, 15, 30].map((x) => interpolate(xs, of(1, 2, 4), x))).toEqual([1, 1.5, 3, 4]);
    expect(interpolate(of(), of(), 3)).toBeNaN();
  });
});

describe("curves", () => {
  it("stand at the last step, at the time since the start, or at the samples seen", () => {
    const found = columns([3, 2, 1]);
    expect([...curveOf(found, "step", 0, 0).x]).toEqual([9, 19, 29]);
    expect([...curveOf(found, "time", 0, 1000).x]).toEqual([0, 5, 10]);
    expect([...curveOf(found, "samples", 0, 0).x]).toEqual([640, 1280, 1920]);
  });

  it("join what is rarely recorded and break where values were not finite", () => {
    const { x, y, bad } = curveOf(columns([3, NaN, 2, NaN], [0, 0, 0, 5]), "step", 0, 0);
    expect([[...x], [...y], [...bad]]).toEqual([
      [9, 29, 39],
      [3, 2, NaN],
      [0, 0, 5],
    ]);
  });

  it("keep what they were before smoothing", () => {
    const { y, raw } = curveOf(columns([4, 0, 4]), "step", 0.5, 0);
    expect([...(raw ?? [])]).toEqual([4, 0, 4]);
    expect(y[1]).toBeGreaterThan(0);
  });

  it("show the same steps on each axis", () => {
    const all = columns([5, 4, 3, 2, 1]);
    const range = { first: 9, last: 39 };
    for (const axis of ["step", "time", "samples"] as const) {
      const zoom = zoomOf(range, all, axis, 1000);
      expect(rangeOf(zoom ?? [0, 0], all, axis, 1000)).toEqual(range);
    }
    expect(zoomOf(null, all, "time", 0)).toBeNull();
    expect(rangeOf([-30, 0.2], all, "step", 0)).toEqual({ first: 0, last: 1 });
  });
});

describe("what a chart reaches over", () => {
  const line = (...y: number[]) => ({ x: Float64Array.from(y, (_, index) => index), y: Float64Array.from(y) });

  it("is all of x, and nothing without points", () => {
    expect(extentX([line(1, 2, 3), line()])).toEqual([0, 2]);
    expect(extentX([line(7)])).toEqual([-0.5, 0.5]);
    expect(extentX([line()])).toBeNull();
    expect(extentY([line(NaN, Infinity)], [0, 1])).toBeNull();
  });

  it("holds the visible values, with some room and zero where it is near", () => {
    const found = extentY([line(100, 100, 1, 2, 3, 100, 100)], [3, 3.5]);
    expect(found?.range[0]).toBeCloseTo(0.88);
    expect(found?.range[1]).toBeCloseTo(3.12);
    expect(extentY([line(0.01, 5)], [0, 1])?.range[0]).toBe(0);
  });

  it("leaves out few points far beyond all others, and says so", () => {
    const usual = Array.from({ length: 200 }, (_, index) => 2 + (index % 7) / 10);
    const found = extentY([line(...usual), line(1e31, 4e30, NaN)], [0, 199]);
    expect(found?.hides).toBe(true);
    expect(found?.range[1]).toBeLessThan(5);
    expect(extentY([line(...usual), line(1e31)], [0, 199], { whole: true })?.range[1]).toBeGreaterThan(1e31);
    expect(extentY([line(...usual), line(1e31)], [0, 199], { log: true })?.range[1]).toBeGreaterThan(1e31);
  });

  it("shows the whole of a loss that falls from its start", () => {
    const loss = Array.from({ length: 500 }, (_, step) => 0.1 + 2.2 / (1 + step / 20));
    expect(extentY([line(...loss)], [0, 499])?.hides).toBe(false);
  });

  it("makes a constant a line in the middle, also where only its last digits differ", () => {
    expect(extentY([line(0, 0, 0)], [0, 2])?.range).toEqual([0, 1]);
    const [low, high] = extentY([line(0.05, 0.05000000000000001)], [0, 1])?.range ?? [0, 0];
    expect([low, high].map((each) => Math.round(each * 1e6) / 1e6)).toEqual([0.045, 0.055]);
  });
});
