/** The steps at which a tensor was sampled. */

import { columnAt } from "../../lib/heat";
import type { HeatAnswer } from "../../wire/types";

/** Rising; of a bucket of several samples the last, which is the one that stands for it. */
export type SampleSteps = Float64Array;

/** From a heat query, in which columns with a value are samples. */
export function sampleSteps(heat: HeatAnswer | null, name: string): SampleSteps {
  const row = heat?.names.indexOf(name) ?? -1;
  if (!heat || row < 0) return new Float64Array();
  return heat.last.filter((_, i) => !Number.isNaN(heat.values[row * heat.first.length + i] ?? NaN));
}

/** The number of the sample at or before a step; 0 before all. */
export function sampleAt(samples: SampleSteps, step: number | null): number {
  if (step === null) return samples.length - 1;
  return Math.max(0, columnAt(samples, step));
}

/** The step of the sample that many further; null when that is the newest, which is followed. */
export function neighbour(samples: SampleSteps, step: number | null, by: number): number | null {
  const index = Math.min(Math.max(sampleAt(samples, step) + by, 0), samples.length - 1);
  return index === samples.length - 1 ? null : (samples[index] ?? null);
}
