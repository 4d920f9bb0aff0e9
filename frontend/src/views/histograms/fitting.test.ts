import { expect, it } from "vitest";
import type { Bins } from "../../lib/rebin";
import { fittedAxis } from "./fitting";

function even(size: number): Bins {
  return { lower: Float64Array.of(-size, 0), upper: Float64Array.of(0, size), counts: Float64Array.of(50, 50) };
}

it("holds the values of all steps while enough of the axis is left for those that are shown", () => {
  const axis = fittedAxis([even(1)], [even(2), even(3)], "linear", "auto", false)?.axis;
  expect([axis?.low, axis?.high]).toEqual([-3, 3]);
});

it("holds only what is shown when other steps would leave it a line", () => {
  const others = Array.from({ length: 10 }, () => even(1e6));
  expect(fittedAxis([even(1)], others, "linear", "auto", false)?.axis.high).toBe(1);
  expect(fittedAxis([even(1)], others, "linear", "all", false)?.axis.high).toBe(1e6);
});

it("holds only what is shown when that is wanted", () => {
  expect(fittedAxis([even(1)], [even(2)], "symlog", "shown", false)?.axis.high).toBe(1);
});

it("has no axis for nothing", () => {
  const nothing = { lower: new Float64Array(), upper: new Float64Array(), counts: new Float64Array() };
  expect(fittedAxis([nothing], [], "log", "auto", false)).toBe(null);
});
