import { expect, it } from "vitest";
import type { HeatAnswer } from "../../wire/types";
import { neighbour, sampleAt, sampleSteps } from "./samples";

const heat: HeatAnswer = {
  what: "heat",
  run: "r",
  version: 1,
  names: ["a", "b"],
  first: Float64Array.of(0, 10, 20),
  last: Float64Array.of(9, 19, 29),
  values: Float32Array.of(1, NaN, 3, 1, 2, 3),
};

it("takes columns with a value for samples", () => {
  expect([...sampleSteps(heat, "a")]).toEqual([9, 29]);
  expect([...sampleSteps(heat, "c")]).toEqual([]);
  expect([...sampleSteps(null, "a")]).toEqual([]);
});

it("steps from sample to sample, and follows the run after the last", () => {
  const samples = Float64Array.of(0, 10, 20);
  expect(sampleAt(samples, null)).toBe(2);
  expect(sampleAt(samples, 14)).toBe(1);
  expect(sampleAt(samples, -5)).toBe(0);
  expect(neighbour(samples, null, -1)).toBe(10);
  expect(neighbour(samples, 0, -1)).toBe(0);
  expect(neighbour(samples, 10, 1)).toBe(null);
});
