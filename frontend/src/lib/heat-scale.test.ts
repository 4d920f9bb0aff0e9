import { describe, expect, it } from "vitest";
import { againstOwnMedian, heatScale, percentile } from "./heat-scale";

function logValues(): Float32Array {
  return Float32Array.from({ length: 1000 }, (_, i) => 10 ** (-6 + (i / 999) * 6));
}

describe("percentile", () => {
  it("takes the value of the nearest rank", () => {
    expect(percentile([1, 2, 3, 4, 100], 0.5)).toBe(3);
    expect(percentile([1, 2], 0)).toBe(1);
    expect(percentile([], 0.5)).toBe(NaN);
  });
});

describe("logarithmic scale", () => {
  it("is not spoilt by a few extreme values, and says that they are beyond its ends", () => {
    const values = logValues();
    values[0] = 1e-30;
    values[1] = 1e30;
    const scale = heatScale("log", values, "robust");
    expect(scale.low).toBeGreaterThan(1e-7);
    expect(scale.high).toBeLessThan(10);
    expect([scale.below, scale.above]).toEqual([true, true]);
    const full = heatScale("log", values, "full");
    expect(full.high / 1e30).toBeCloseTo(1, 5);
    expect([full.below, full.above]).toEqual([false, false]);
  });

  it("keeps its colours for the bulk when a twentieth of the values is zero but for rounding", () => {
    const values = Float32Array.from({ length: 1000 }, (_, i) => (i % 20 === 0 ? 1e-12 : 0.01 * (1 + (i % 7))));
    const scale = heatScale("log", values, "robust");
    expect(scale.low).toBeGreaterThan(1e-4);
    expect(scale.below).toBe(true);
  });

  it("shows gradients that vanish evenly over depth to their end", () => {
    const values = Float32Array.from({ length: 1000 }, (_, i) => 10 ** (-13 * (i / 999)));
    expect(heatScale("log", values, "robust").low).toBeLessThan(2e-13);
  });

  it("gives decades equal lengths, and zero a place of its own", () => {
    const scale = heatScale("log", logValues(), "full");
    expect(scale.place(1e-3) - scale.place(1e-4)).toBeCloseTo(scale.place(0.1) - scale.place(0.01));
    expect(scale.place(0)).toBe(-Infinity);
    expect(scale.place(NaN)).toBe(NaN);
  });

  it("does not blow the noise of nearly constant values up", () => {
    const scale = heatScale("log", new Float32Array([1, 1.001, 1.002]), "robust");
    expect(scale.high / scale.low).toBeGreaterThan(1.9);
  });

  it("exists without any value", () => {
    const scale = heatScale("log", new Float32Array([NaN, 0, Infinity]), "robust");
    expect(scale.place(scale.low)).toBeCloseTo(0);
    expect(scale.ticks(5).length).toBeGreaterThan(0);
  });
});

describe("signed scale", () => {
  it("has zero in the middle and mirrors signs", () => {
    const scale = heatScale("signed", new Float32Array([-0.5, 0.1, 0.001, 2, 0]), "full");
    expect(scale.place(0)).toBe(0.5);
    expect(scale.place(2)).toBeCloseTo(1);
    expect(scale.place(-0.1) + scale.place(0.1)).toBeCloseTo(1);
    expect(scale.place(0.001)).toBeGreaterThan(0.5);
  });
});

it("puts what did not change in the middle, and halving as far from it as doubling", () => {
  const scale = heatScale("change", new Float32Array([0.1, 0.5, 1, 2, 1, 1]), "full");
  expect(scale.place(1)).toBe(0.5);
  expect(scale.place(0.1)).toBeCloseTo(0);
  expect(scale.place(2) + scale.place(0.5)).toBeCloseTo(1);
  expect(scale.place(0)).toBe(-Infinity);
});

it("draws shares from none to all, whatever there is", () => {
  const scale = heatScale("share", new Float32Array([0.4, 0.41]), "robust");
  expect([scale.low, scale.high, scale.place(0.25)]).toEqual([0, 1, 0.25]);
});

it.each(["log", "signed", "share", "linear", "change"] as const)("has few rising ticks inside a %s scale", (kind) => {
  for (const factor of [1e-12, 1, 3e7]) {
    const values = Float32Array.from({ length: 400 }, (_, i) => factor * Math.sin(i) * 1.07 ** (i % 50));
    const scale = heatScale(kind, values, "robust");
    for (const most of [3, 6, 10]) {
      const places = scale.ticks(most).map((tick) => tick.place);
      expect(places.length).toBeGreaterThan(0);
      expect(places.length).toBeLessThanOrEqual(most + 1);
      expect([...places].sort((a, b) => a - b)).toEqual(places);
      expect(Math.min(...places)).toBeGreaterThanOrEqual(-1e-6);
      expect(Math.max(...places)).toBeLessThanOrEqual(1 + 1e-6);
    }
  }
});

it("divides rows by their own medians, so that small and big rows compare", () => {
  const relative = againstOwnMedian(new Float32Array([1, 2, 4, NaN, 100, 200, 400, 0, NaN, NaN, NaN, NaN]), 4);
  expect([...relative.subarray(0, 3)]).toEqual([...relative.subarray(4, 7)]);
  expect(relative[1]).toBe(1);
  expect(relative[7]).toBe(0);
  expect(relative[9]).toBe(NaN);
});
