import { describe, expect, it } from "vitest";
import type { ScalarColumns } from "../wire/types";
import { greatest, lowest, memoryUse, newest, nonFinite, recentMean, stepTime, throughput } from "./vitals";

function columns(mean: number[], bad: number[] = mean.map(() => 0)): ScalarColumns {
  const values = Float64Array.from(mean);
  const step = Float64Array.from(mean, (_, index) => index * 4);
  return {
    step,
    last: step.map((each) => each + 3),
    time: step,
    samples: step,
    mean: values,
    min: values,
    max: values,
    bad: Float64Array.from(bad),
    end: values,
    count: values.map(() => 4),
  };
}

describe("vital signs", () => {
  it("are the newest and the extremes, and none where nothing was recorded", () => {
    const loss = columns([3, 1, 2]);
    expect([recentMean(loss, 2), newest(loss), greatest(loss)]).toEqual([1.5, 2, 3]);
    expect(lowest(loss)).toEqual({ value: 1, step: 7 });
    expect([recentMean(undefined), newest(undefined), lowest(undefined)]).toEqual([NaN, null, null]);
    expect([newest(columns([])), lowest(columns([NaN]))]).toEqual([null, null]);
  });

  it("count the steps that were not finite, whichever scalar shows them", () => {
    const scalars = new Map([
      ["loss", columns([1, 1, NaN], [0, 1, 4])],
      ["gradient_norm", columns([1, 1, 1], [0, 0, 2])],
    ]);
    expect(nonFinite(scalars)).toEqual({ steps: 5, first: 4 });
    expect(nonFinite(new Map([["nonfinite_gradients", columns([0, 0, 12])]]))).toEqual({ steps: 1, first: 8 });
    expect(nonFinite(new Map())).toEqual({ steps: 0, first: null });
  });

  it("split the time of a step into shares that sum up to one", () => {
    const scalars = new Map([
      ["time/step", columns([0.1])],
      ["time/data", columns([0.02])],
      ["time/forward", columns([0.05])],
    ]);
    const { seconds, split } = stepTime(scalars);
    expect(seconds).toBe(0.1);
    expect(split.map(([phase]) => phase)).toEqual(["data", "forward", "other"]);
    expect(split.reduce((sum, [, share]) => sum + share, 0)).toBeCloseTo(1);
    expect(stepTime(new Map()).split).toEqual([]);
  });

  it("tell the throughput and the memory, of the GPU where there is one", () => {
    expect(
      throughput(
        new Map([
          ["time/step", columns([0.5])],
          ["batch_size", columns([32])],
        ]),
      ),
    ).toEqual({ samples: 64, steps: 2 });
    const host = new Map([["memory/rss", columns([5])]]);
    expect(memoryUse(host)).toMatchObject({ bytes: 5, total: null, name: "memory/rss" });
    const both = new Map([...host, ["memory/gpu0/used", columns([7])], ["memory/gpu0/total", columns([10])]]);
    expect(memoryUse(both)).toMatchObject({ bytes: 7, total: 10, name: "memory/gpu0/used" });
    expect(memoryUse(new Map())).toBeNull();
  });
});
