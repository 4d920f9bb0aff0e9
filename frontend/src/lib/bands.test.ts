import { expect, it } from "vitest";
import { bandAxis, BAND_PAIRS, MEDIAN, quantileAt, stretches } from "./bands";

const ONE = [-100, -3, -2, -1, 0.5, 1, 2, 3, 50];
const NONE = Array<number>(9).fill(NaN);

it("pairs quantiles that mirror each other around the median", () => {
  for (const [low, high] of BAND_PAIRS) expect(low + high).toBe(2 * MEDIAN);
  expect(quantileAt(Float64Array.from([...NONE, ...ONE]), 1, MEDIAN)).toBe(0.5);
});

it("has an axis for all quantiles, but for a few wild steps unless they are wanted", () => {
  const quantiles = Float64Array.from([...Array(50).fill(ONE).flat(), ...ONE.map((value) => value * 1e9), ...NONE]);
  const usual = bandAxis(quantiles, "symlog", false);
  expect([usual?.axis.low, usual?.axis.high, usual?.beyond?.high]).toEqual([-100, 50, 50e9]);
  const full = bandAxis(quantiles, "linear", true);
  expect([full?.axis.low, full?.axis.high, full?.beyond]).toEqual([-100e9, 50e9, null]);
});

it("has an axis for zeros, none for nothing", () => {
  expect(bandAxis(Float64Array.from(Array<number>(9).fill(0)), "log", false)).not.toBe(null);
  expect(bandAxis(Float64Array.from(NONE), "log", false)).toBe(null);
});

it("breaks bands where a sample has no finite value", () => {
  const quantiles = Float64Array.from([...ONE, ...ONE, ...NONE, ...ONE]);
  expect(stretches(quantiles)).toEqual([
    { from: 0, to: 2 },
    { from: 3, to: 4 },
  ]);
});
