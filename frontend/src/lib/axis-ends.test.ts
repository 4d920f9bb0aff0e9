import { expect, it } from "vitest";
import { axisEnds } from "./axis-ends";

const CALM = Array.from({ length: 100 }, (_, i) => 1 + (i % 10) / 10);

it("holds everything while steps are alike", () => {
  expect(
    axisEnds(
      CALM.map((size) => -size),
      CALM,
      false,
    ),
  ).toEqual({ low: -1.9, high: 1.9, beyond: null });
});

it("leaves a few wild steps out, says how far they reach, and shows them when asked", () => {
  const highs = [...CALM, 1e20, 1e23];
  const ends = axisEnds(
    CALM.map((size) => -size),
    highs,
    false,
  );
  expect(ends).toEqual({ low: -1.9, high: 1.9, beyond: { low: -1.9, high: 1e23 } });
  expect(
    axisEnds(
      CALM.map((size) => -size),
      highs,
      true,
    )?.high,
  ).toBe(1e23);
});

it("shows wild steps when they are many", () => {
  expect(
    axisEnds(
      [...CALM],
      CALM.map((size, i) => (i % 5 === 0 ? 1e9 : size)),
      false,
    )?.high,
  ).toBe(1e9);
});

it("copes with one step, with equal values, with all doubles and with nothing", () => {
  expect(axisEnds([2], [3], false)).toEqual({ low: 2, high: 3, beyond: null });
  expect(axisEnds([0, 0], [0, 0], false)).toEqual({ low: 0, high: 0, beyond: null });
  expect(axisEnds([-1.7e308], [1.7e308], false)?.high).toBe(1.7e308);
  expect(axisEnds([NaN], [NaN], false)).toBe(null);
});
