import { expect, test } from "vitest";
import { buckets, steps } from "./phases-cases";
import { holesIn, lastKnown, perStep } from "./phases-join";
import { phaseShares, phaseSplit, stepTimes, timeBins, waitReading, waitShares } from "./phases";

test("the parts of a step and its rest add up to the step", () => {
  const split = phaseSplit(
    new Map([
      ["time/step", steps([10, 20])],
      ["time/data", steps([1, 2])],
      ["time/forward", steps([3, 3])],
      ["time/backward", steps([4, 9])],
      ["time/optimizer", steps([1, 1])],
    ]),
  );
  expect([...(split?.seconds.rest ?? [])]).toEqual([1, 5]);
  const shares = split && phaseShares(split);
  expect(shares?.backward).toBeCloseTo(13 / 30);
  expect(Object.values(shares ?? {}).reduce((sum, share) => sum + share, 0)).toBeCloseTo(1);
});

test("a part that was not recorded in every step counts with what it took of all steps", () => {
  const whole = buckets([{ first: 0, last: 9, mean: 10 }]);
  const rare = buckets([{ first: 4, last: 4, mean: 20 }]);
  expect([...perStep(whole, rare)]).toEqual([2]);
});

test("a bucket that reaches into the next row is divided between them", () => {
  const whole = buckets([
    { first: 0, last: 3, mean: 1 },
    { first: 4, last: 7, mean: 1 },
  ]);
  const wide = buckets([{ first: 2, last: 5, mean: 3 }]);
  expect([...perStep(whole, wide)]).toEqual([1.5, 1.5]);
});

test("values that are not finite do not spoil a sum", () => {
  expect([...perStep(steps([1, 1]), steps([NaN, 2]))]).toEqual([0, 2]);
});

test("without step times there is no split, without parts all of it is rest", () => {
  expect(phaseSplit(new Map())).toBe(null);
  const split = phaseSplit(new Map([["time/step", steps([2, 4])]]));
  expect(split?.isKnown).toBe(false);
  expect([...(split?.seconds.rest ?? [])]).toEqual([2, 4]);
});

test("parts that are longer than the step, as clocks may have it, leave no negative rest", () => {
  const split = phaseSplit(
    new Map([
      ["time/step", steps([1])],
      ["time/data", steps([1.1])],
    ]),
  );
  expect([...(split?.seconds.rest ?? [])]).toEqual([0]);
  expect([...(split ? waitShares(split) : [])]).toEqual([1]);
});

test("what is rarely recorded holds until it is recorded again", () => {
  expect([
    ...lastKnown(
      steps([0, 0, 0, 0]),
      buckets([
        { first: 1, last: 1, mean: 5 },
        { first: 3, last: 3, mean: 6 },
      ]),
    ),
  ]).toEqual([NaN, 5, 5, 6]);
});

test("slow steps are told with how much slower they were", () => {
  const times = stepTimes(steps([1, 1, 1, 1, 7, 1, 1]));
  expect(times?.median).toBe(1);
  expect(times?.isExact).toBe(true);
  expect(times?.slow).toEqual([{ first: 4, last: 4, seconds: 7, factor: 7 }]);
});

test("of a bucket its greatest value counts as slow, and the median weighs by steps", () => {
  const times = stepTimes(
    buckets([
      { first: 0, last: 99, mean: 1, max: 9 },
      { first: 100, last: 100, mean: 3 },
    ]),
  );
  expect(times?.median).toBe(1);
  expect(times?.isExact).toBe(false);
  expect(times?.slow.map(({ first, seconds }) => [first, seconds])).toEqual([
    [0, 9],
    [100, 3],
  ]);
});

test("every step is in one bin, outliers in the last", () => {
  const bins = timeBins(steps([...Array.from({ length: 500 }, (_, index) => 1 + (index % 10) / 100), 50]));
  expect(bins.reduce((sum, bin) => sum + bin.steps, 0)).toBe(501);
  expect(bins.at(-1)?.upper).toBe(50);
  expect(bins.length).toBeGreaterThan(5);
});

test("steps of one and the same time make no bins to look at", () => {
  expect(timeBins(steps([]))).toEqual([]);
  expect(timeBins(steps([0, 0]))).toEqual([]);
});

test("the reading of the wait follows its share", () => {
  expect(waitReading(0.004).text).toBe("Waiting for data takes less than 1 % of each step.");
  expect(waitReading(0.344)).toMatchObject({ tone: "bad", text: "Waiting for data takes 34 % of each step." });
  expect(waitReading(0.1).tone).toBe("warning");
});

test("missing steps are a hole, those between buckets of some width are not", () => {
  const row = (first: number, last = first): { first: number; last: number; mean: number } => ({
    first,
    last,
    mean: 1,
  });
  expect([...holesIn(buckets([row(0), row(1), row(30), row(31)]))]).toEqual([2]);
  expect([...holesIn(buckets([row(0, 9), row(12, 19), row(24, 29)]))]).toEqual([]);
});
