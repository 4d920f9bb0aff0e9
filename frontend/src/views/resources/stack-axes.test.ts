import { expect, test } from "vitest";
import { placeX, placeY, valueAtX, valueTicks, xTicks } from "./stack-axes";

const FRAME = { left: 50, top: 10, right: 250, bottom: 110, from: 0, to: 100, high: 4 };

test("places and values are each other's inverse, and stay inside", () => {
  expect(placeX(FRAME, 25)).toBe(100);
  expect(valueAtX(FRAME, 100)).toBe(25);
  expect(valueAtX(FRAME, -999)).toBe(0);
  expect(valueAtX(FRAME, 999)).toBe(100);
  expect(placeY(FRAME, 4)).toBe(10);
});

test("bytes are counted in powers of two", () => {
  const mebibyte = 1 << 20;
  expect(valueTicks(350 * mebibyte, 4, "bytes")).toEqual([0, 100, 200, 300].map((value) => value * mebibyte));
  expect(valueTicks(0, 4, "bytes")).toEqual([0]);
});

test("time is counted as a clock does", () => {
  expect(xTicks({ ...FRAME, to: 240, right: 450 }, "elapsed")).toEqual([0, 60, 120, 180, 240]);
  expect(xTicks({ ...FRAME, from: 5, to: 5 }, "elapsed")).toEqual([5]);
});
