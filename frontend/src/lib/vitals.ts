/** The vital signs of a run: a number and a line from the columns of its scalars. */

import type { ScalarColumns } from "../wire/types";

type Scalars = ReadonlyMap<string, ScalarColumns>;

/** Mean of the newest buckets, weighted by their steps: one step alone says little. */
export function recentMean(columns: ScalarColumns | undefined, buckets = 5): number {
  if (!columns) return NaN;
  let [sum, weight, taken] = [0, 0, 0];
  for (let index = columns.mean.length - 1; index >= 0 && taken < buckets; index--, taken++) {
    const value = columns.mean[index] ?? NaN;
    const steps = columns.count[index] ?? 1;
    if (Number.isFinite(value)) [sum, weight] = [sum + value * steps, weight + steps];
  }
  return weight > 0 ? sum / weight : NaN;
}

/** The newest value as it was recorded, also when it is not finite; null when nothing was. */
export function newest(columns: ScalarColumns | undefined): number | null {
  if (!columns || columns.end.length === 0) return null;
  return columns.end[columns.end.length - 1] ?? null;
}

export interface Lowest {
  readonly value: number;
  readonly step: number;
}

/** The lowest mean of a bucket, and about where it was. */
export function lowest(columns: ScalarColumns | undefined): Lowest | null {
  let found: Lowest | null = null;
  columns?.mean.forEach((value, index) => {
    if (Number.isFinite(value) && (!found || value < found.value)) found = { value, step: columns.last[index] ?? 0 };
  });
  return found;
}

export function greatest(columns: ScalarColumns | undefined): number {
  return columns ? columns.max.reduce((most, value) => (value > most ? value : most), -Infinity) : NaN;
}

export interface NonFinite {
  /** Steps in which the loss, the gradient norm or a gradient was not finite: at least so many. */
  readonly steps: number;
  readonly first: number | null;
}

/** Where losses and gradients were not finite. */
export function nonFinite(scalars: Scalars): NonFinite {
  let [steps, first] = [0, Infinity];
  const take = (columns: ScalarColumns | undefined, count: (index: number) => number): void => {
    let own = 0;
    columns?.step.forEach((step, index) => {
      const found = count(index);
      if (found > 0) [own, first] = [own + found, Math.min(first, step)];
    });
    steps = Math.max(steps, own);
  };
  for (const name of ["loss", "gradient_norm"]) {
    const columns = scalars.get(name);
    take(columns, (index) => columns?.bad[index] ?? 0);
  }
  const counts = scalars.get("nonfinite_gradients");
  take(counts, (index) => ((counts?.max[index] ?? 0) > 0 ? 1 : 0));
  return { steps, first: first === Infinity ? null : first };
}

export const PHASES = ["data", "forward", "backward", "optimizer"] as const;
export type Phase = (typeof PHASES)[number] | "other";

export interface StepTime {
  readonly seconds: number;
  /** Shares of the step, which sum up to 1; phases that were not recorded are left out. */
  readonly split: readonly (readonly [Phase, number])[];
}

export function stepTime(scalars: Scalars): StepTime {
  const seconds = recentMean(scalars.get("time/step"));
  const phases = PHASES.map((phase): [Phase, number] => [phase, recentMean(scalars.get(`time/${phase}`))]);
  const known = phases.filter(([, part]) => Number.isFinite(part));
  const sum = known.reduce((total, [, part]) => total + part, 0);
  const whole = Math.max(seconds, sum);
  const split = known.map(([phase, part]): [Phase, number] => [phase, part / whole]);
  const rest = 1 - sum / whole;
  return { seconds, split: known.length === 0 ? [] : [...split, ["other", Math.max(0, rest)]] };
}

export interface Throughput {
  readonly samples: number;
  readonly steps: number;
}

/** Per second, over the newest buckets, from step times; pauses between steps do not count. */
export function throughput(scalars: Scalars): Throughput {
  const seconds = recentMean(scalars.get("time/step"));
  return { samples: recentMean(scalars.get("batch_size")) / seconds, steps: 1 / seconds };
}

export interface MemoryUse {
  readonly bytes: number;
  readonly total: number | null;
  readonly what: string;
  readonly name: string;
}

/** On the first GPU that is used, else of the process. */
export function memoryUse(scalars: Scalars): MemoryUse | null {
  for (const name of ["memory/gpu0/process", "memory/cuda0/reserved", "memory/gpu0/used", "memory/mps/driver"]) {
    const bytes = recentMean(scalars.get(name), 1);
    const total = recentMean(scalars.get("memory/gpu0/total"), 1);
    if (bytes > 0) return { bytes, total: total > 0 ? total : null, what: "on the GPU", name };
  }
  const bytes = recentMean(scalars.get("memory/rss"), 1);
  return bytes > 0 ? { bytes, total: null, what: "of the process", name: "memory/rss" } : null;
}
