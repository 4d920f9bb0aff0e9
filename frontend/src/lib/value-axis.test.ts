import { describe, expect, it } from "vitest";
import { niceValues, valueAxis, type ValueScale } from "./value-axis";

const SCALES: ValueScale[] = ["linear", "symlog", "log"];

describe.each(SCALES)("%s axis", (scale) => {
  const axis = valueAxis(scale, -3, 40, 1e-4);

  it("runs from 0 to 1", () => {
    expect(axis.place(-3)).toBeCloseTo(0);
    expect(axis.place(40)).toBeCloseTo(1);
  });

  it("rises everywhere", () => {
    const values = [-3, -1, -1e-4, -1e-6, 0, 1e-6, 1e-4, 1, 40];
    const places = values.map((value) => axis.place(value));
    expect([...places].sort((a, b) => a - b)).toEqual(places);
    expect(new Set(places).size).toBe(places.length);
  });

  it("finds values back from their places", () => {
    for (const value of [-3, -0.02, -1e-5, 0, 1e-7, 3e-3, 39]) {
      expect(axis.valueAt(axis.place(value))).toBeCloseTo(value, 10);
    }
  });

  it("places its ticks where their values are, inside the axis, not too many", () => {
    for (const most of [2, 4, 8, 16]) {
      const ticks = axis.ticks(most);
      expect(ticks.length).toBeGreaterThan(0);
      expect(ticks.length).toBeLessThanOrEqual(most + 1);
      for (const tick of ticks) {
        expect(tick.place).toBe(axis.place(tick.value));
        expect(tick.place).toBeGreaterThanOrEqual(-1e-9);
        expect(tick.place).toBeLessThanOrEqual(1 + 1e-9);
      }
    }
  });

  it("works for one single value, for zero, for all doubles and for one side", () => {
    for (const [low, high] of [
      [2, 2],
      [0, 0],
      [-1.7e308, 1.7e308],
      [1e-30, 1e30],
      [-1, -1e-9],
    ] as const) {
      const extreme = valueAxis(scale, low, high, 1e-12);
      expect(extreme.place(low)).toBeLessThan(extreme.place(high) + (low === high ? 1e-9 : 0));
      expect(extreme.place((low + high) / 2)).toBeGreaterThanOrEqual(0);
      expect(extreme.ticks(6).every((tick) => Number.isFinite(tick.place))).toBe(true);
    }
  });
});

it("marks whole decades and zero on a logarithmic axis", () => {
  const values = valueAxis("log", -1, 1, 1e-3)
    .ticks(20)
    .map((tick) => tick.value);
  expect(values).toEqual([-1, -0.1, -0.01, -0.001, 0, 0.001, 0.01, 0.1, 1]);
});

it("adds marks between decades where there are few", () => {
  expect(
    valueAxis("log", 1, 9, 1)
      .ticks(8)
      .map((tick) => tick.value),
  ).toEqual([1, 2, 5]);
});

it("adds them on both sides alike", () => {
  expect(
    valueAxis("symlog", -1.7, 1.7, 0.3)
      .ticks(8)
      .map((tick) => tick.value),
  ).toEqual([-1, -0.5, -0.2, 0, 0.2, 0.5, 1]);
});

it("gives every decade the same width on both sides", () => {
  const axis = valueAxis("log", -1, 1, 1e-3);
  const width = axis.place(1) - axis.place(0.1);
  expect(axis.place(0.01) - axis.place(0.001)).toBeCloseTo(width);
  expect(axis.place(-0.01) - axis.place(-0.1)).toBeCloseTo(width);
});

it("marks round numbers", () => {
  expect(niceValues(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  expect(niceValues(-7, 12, 4)).toEqual([-5, 0, 5, 10]);
  expect(niceValues(3, 3, 4)).toEqual([3]);
});
