import { expect, test } from "vitest";
import type { ScalarColumns } from "../wire/types";
import { buckets, steps } from "./phases-cases";
import { rankReading, rankSpread, rankTimes } from "./ranks";

function scalars(step: readonly number[], backward: readonly number[]): ReadonlyMap<string, ScalarColumns> {
  return new Map([
    ["time/step", steps(step)],
    ["time/backward", steps(backward)],
  ]);
}

test("ranks that wait for the slowest take equally long, and only their own work differs", () => {
  const times = rankTimes(
    new Map([
      [0, scalars([10, 10], [6, 6])],
      [1, scalars([10, 10], [2, 2])],
      [2, scalars([10, 10], [6, 6])],
    ]),
  );
  expect(times.map(({ seconds }) => seconds)).toEqual([10, 10, 10]);
  expect(times.map(({ own }) => own)).toEqual([4, 8, 4]);
  expect(rankReading(times).slowest).toBe(1);
  expect(rankReading(times).text).toContain("it takes 100 % longer");
});

test("equal ranks and a single one need no warning", () => {
  const one = rankTimes(new Map([[0, scalars([10], [5])]]));
  expect(rankReading(one)).toEqual({ text: "", slowest: null });
  expect(rankReading([...one, { ...(one[0] as (typeof one)[number]), rank: 1 }]).slowest).toBe(null);
});

test("ranks are compared at steps that all of them have", () => {
  const spread = rankSpread(
    new Map([
      [0, steps([1, 2, 3, 4])],
      [3, steps([2, 1, 9], 1)],
    ]),
  );
  expect([...spread.step]).toEqual([1, 2, 3]);
  expect([...spread.least]).toEqual([2, 1, 4]);
  expect([...spread.most]).toEqual([2, 3, 9]);
  expect([...spread.slowest]).toEqual([0, 0, 3]);
});

test("buckets of different width are joined where they overlap", () => {
  const wide = buckets([
    { first: 0, last: 9, mean: 5 },
    { first: 20, last: 29, mean: 7 },
  ]);
  const spread = rankSpread(
    new Map([
      [0, steps([1, 1, 1], 8)],
      [1, wide],
    ]),
  );
  expect([...spread.step]).toEqual([8, 9]);
  expect([...spread.most]).toEqual([5, 5]);
});

test("no ranks, no spread", () => {
  expect(rankSpread(new Map()).step.length).toBe(0);
  expect(rankTimes(new Map([[0, new Map()]]))).toEqual([]);
});
