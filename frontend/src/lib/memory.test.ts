import { expect, test } from "vitest";
import { buckets, steps } from "./phases-cases";
import { deviceNumbers, isStacked, memoryNames, memoryReading, memoryStacks } from "./memory";

test("host memory is the process, its children, and what is available as the limit", () => {
  const [host] = memoryStacks(
    new Map([
      ["memory/rss", steps([100, 120])],
      ["memory/children_rss", steps([50, 60])],
      ["memory/host_available", steps([850, 800])],
    ]),
  );
  expect(host?.parts.map(({ key, bytes }) => [key, [...bytes]])).toEqual([
    ["rss", [100, 120]],
    ["children", [50, 60]],
  ]);
  expect(host?.limit).toBe(1000);
  expect(host?.peak).toBe(180);
});

test("the peak of a bucket is its greatest value, not its mean", () => {
  const [host] = memoryStacks(new Map([["memory/rss", buckets([{ first: 0, last: 9, mean: 100, max: 160 }])]]));
  expect(host?.peak).toBe(160);
  expect(host?.limit).toBe(null);
});

test("of a GPU what is not ours is others'", () => {
  const stacks = memoryStacks(
    new Map([
      ["memory/gpu1/used", steps([10])],
      ["memory/gpu1/process", steps([6])],
      ["memory/gpu1/total", steps([24])],
    ]),
  );
  expect(stacks.map(({ key, limit }) => [key, limit])).toEqual([["gpu1", 24]]);
  expect(stacks[0]?.parts.map(({ key, bytes }) => [key, bytes[0]])).toEqual([
    ["process", 6],
    ["others", 4],
  ]);
});

test("torch's allocator is what tensors hold and what it keeps", () => {
  const [cuda] = memoryStacks(
    new Map([
      ["memory/cuda0/allocated", steps([3])],
      ["memory/cuda0/reserved", steps([5])],
      ["memory/cuda0/peak_allocated", steps([4])],
    ]),
  );
  expect(cuda?.parts.map(({ bytes }) => bytes[0])).toEqual([3, 2]);
  expect(cuda?.limit).toBe(4);
});

test("names of devices are found, the tenth after the second", () => {
  const names = [
    "memory/gpu10/used",
    "memory/gpu2/used",
    "gpu2/utilization",
    "memory/cuda0/reserved",
    "loss",
    "memory/rss",
  ];
  expect(deviceNumbers(names, "gpu")).toEqual([2, 10]);
  expect(memoryNames(names)).not.toContain("loss");
  expect(isStacked("memory/pss")).toBe(false);
  expect(isStacked("memory/gpu10/used")).toBe(true);
});

test("a device that was nearly full is said", () => {
  const [gpu] = memoryStacks(
    new Map([
      ["memory/gpu0/used", steps([95])],
      ["memory/gpu0/total", steps([100])],
    ]),
  );
  expect(gpu && memoryReading(gpu)).toBe("GPU 0 peaked at 95 % of its memory: a larger batch may not fit.");
});

test("nothing recorded, nothing stacked", () => {
  expect(memoryStacks(new Map())).toEqual([]);
});
