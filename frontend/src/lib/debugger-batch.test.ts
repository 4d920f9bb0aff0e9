import { describe, expect, it } from "vitest";
import { batchPlan, picturesOf, rowsOf } from "./debugger-batch";

describe("what a batch looks like", () => {
  it("is pictures, with channels before or behind, and thinned when they are large", () => {
    expect(batchPlan([64, 3, 32, 32], "float32")).toEqual({
      look: "pictures",
      channels: "first",
      slice: "[0:12, :, ::1, ::1]",
    });
    expect(batchPlan([64, 300, 200, 3], "uint8").slice).toBe("[0:12, ::3, ::2, :]");
    expect(batchPlan([64, 28, 28], "float32")).toMatchObject({ look: "pictures", channels: "none" });
  });

  it("is tokens where numbers are whole, and numbers elsewhere", () => {
    expect(batchPlan([8, 512], "int64")).toMatchObject({ look: "tokens", slice: "[0:16, 0:128]" });
    expect(batchPlan([64], "int64").slice).toBe("[0:128]");
    expect(batchPlan([8, 512], "float32")).toMatchObject({ look: "numbers", slice: "[0:16, 0:12]" });
    expect(batchPlan([8, 2, 5, 7, 9], "float32").slice).toBe("[0:16, 0, 0, 0, 0:12]");
    expect(batchPlan([], "float32").slice).toBeNull();
  });
});

describe("pictures", () => {
  it("are stretched each by itself; one channel is grey", () => {
    const values = Float64Array.of(0, 1, 2, 4, 10, 10, 10, 10);
    const [first, second] = picturesOf({ shape: [2, 1, 2, 2], values }, "first");
    expect([first?.low, first?.high]).toEqual([0, 4]);
    expect([...(first?.pixels ?? [])].slice(0, 8)).toEqual([0, 0, 0, 255, 64, 64, 64, 255]);
    expect(second?.pixels[0]).toBe(0);
  });

  it("take their colours from channels before or behind", () => {
    const first = picturesOf({ shape: [1, 3, 1, 2], values: Float64Array.of(1, 0, 0, 1, 0, 0) }, "first")[0];
    const last = picturesOf({ shape: [1, 1, 2, 3], values: Float64Array.of(1, 0, 0, 0, 1, 0) }, "last")[0];
    expect([...(first?.pixels ?? [])]).toEqual([255, 0, 0, 255, 0, 255, 0, 255]);
    expect(last?.pixels).toEqual(first?.pixels);
  });

  it("show what is no number in red", () => {
    const [picture] = picturesOf({ shape: [1, 1, 2], values: Float64Array.of(NaN, 1) }, "none");
    expect([...(picture?.pixels ?? [])].slice(0, 4)).toEqual([220, 0, 0, 255]);
  });
});

it("rows of one dimension have one value each", () => {
  expect(rowsOf({ shape: [3], values: Float64Array.of(1, 2, 3) })).toEqual([[1], [2], [3]]);
  expect(rowsOf({ shape: [2, 2], values: Float64Array.of(1, 2, 3, 4) })).toEqual([
    [1, 2],
    [3, 4],
  ]);
  expect(rowsOf({ shape: [], values: Float64Array.of(5) })).toEqual([[5]]);
});
