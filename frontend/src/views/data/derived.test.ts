import { expect, test } from "vitest";
import { steps } from "../../lib/phases-cases";
import { rateColumns, waitColumns } from "./derived";

test("samples per second are the batch over the time of its step", () => {
  const rate = rateColumns(
    new Map([
      ["time/step", steps([0.5, 0.25])],
      ["batch_size", steps([32, 32])],
    ]),
  );
  expect([...(rate?.mean ?? [])]).toEqual([64, 128]);
});

test("a step of no time has no rate, and without batch sizes there is no curve", () => {
  const rate = rateColumns(
    new Map([
      ["time/step", steps([0])],
      ["batch_size", steps([32])],
    ]),
  );
  expect([...(rate?.mean ?? [])]).toEqual([NaN]);
  expect(rateColumns(new Map([["time/step", steps([1])]]))).toBe(undefined);
});

test("the wait is a share of the step", () => {
  const wait = waitColumns(
    new Map([
      ["time/step", steps([4])],
      ["time/data", steps([1])],
    ]),
  );
  expect([...(wait?.mean ?? [])]).toEqual([0.25]);
  expect(waitColumns(new Map([["time/step", steps([4])]]))).toBe(undefined);
});
