/** Where the time of a step goes. */

import type { ScalarColumns } from "../wire/types";
import { perStep } from "./phases-join";

type Scalars = ReadonlyMap<string, ScalarColumns>;

export const PHASE_NAMES = ["data", "forward", "backward", "optimizer", "rest"] as const;
export type PhaseName = (typeof PHASE_NAMES)[number];

/** What is asked for. */
export const TIME_SCALARS = ["time/step", "time/data", "time/forward", "time/backward", "time/optimizer"] as const;

export interface PhaseTexts {
  readonly title: string;
  readonly meaning: string;
}

export const PHASE_TEXTS: Readonly<Record<PhaseName, PhaseTexts>> = {
  data: {
    title: "Waiting for data",
    meaning:
      "from the end of one step to the next forward pass: the loader, moving the batch, and whatever else the loop does there",
  },
  forward: { title: "Forward", meaning: "while the model is called" },
  backward: { title: "Loss and backward", meaning: "from the end of the forward pass to the optimizer" },
  optimizer: { title: "Optimizer", meaning: "while the optimizer steps" },
  rest: {
    title: "Other",
    meaning: "everything else in the step, such as metrics and logging after the optimizer",
  },
};

export interface PhaseSplit {
  /** Whose rows all columns have. */
  readonly whole: ScalarColumns;
  /** Seconds a step. */
  readonly seconds: Readonly<Record<PhaseName, Float64Array>>;
  /** Whether anything but the whole was recorded. */
  readonly isKnown: boolean;
}

/** null: the time of steps was not recorded. */
export function phaseSplit(scalars: Scalars): PhaseSplit | null {
  const whole = scalars.get("time/step");
  if (!whole || whole.step.length === 0) return null;
  const part = (name: PhaseName): Float64Array => perStep(whole, scalars.get(`time/${name}`));
  const [data, forward, backward, optimizer] = [part("data"), part("forward"), part("backward"), part("optimizer")];
  const rest = whole.mean.map((seconds, row) => {
    const parts = [data, forward, backward, optimizer].map((column) => column[row] ?? NaN).filter(Number.isFinite);
    return Math.max(seconds - parts.reduce((sum, value) => sum + value, 0), 0);
  });
  const isKnown = TIME_SCALARS.slice(1).some((name) => scalars.has(name));
  return { whole, seconds: { data, forward, backward, optimizer, rest }, isKnown };
}

/** Shares of a step over the rows from `from` on, which add up to 1; parts that were not recorded are 0. */
export function phaseShares(split: PhaseSplit, from = 0): Readonly<Record<PhaseName, number>> {
  const sums = PHASE_NAMES.map((name) => weightedSum(split.seconds[name], split.whole, from));
  const total = sums.reduce((sum, value) => sum + value, 0);
  const share = (place: number): number => (total > 0 ? (sums[place] ?? 0) / total : 0);
  return { data: share(0), forward: share(1), backward: share(2), optimizer: share(3), rest: share(4) };
}

function weightedSum(values: Float64Array, whole: ScalarColumns, from: number): number {
  let sum = 0;
  for (let row = Math.max(from, 0); row < values.length; row++) {
    const value = values[row] ?? NaN;
    if (Number.isFinite(value)) sum += value * (whole.count[row] ?? 1);
  }
  return sum;
}

/** The first row of the newest part: the last tenth of the steps, and a few rows at least. */
export function recentFrom(whole: ScalarColumns): number {
  const rows = whole.step.length;
  return Math.max(0, rows - Math.max(Math.ceil(rows / 10), 5));
}

/** The time a row's steps waited for data, as a share of their whole time. */
export function waitShares(split: PhaseSplit): Float64Array {
  return split.whole.mean.map((seconds, row) => {
    const wait = split.seconds.data[row] ?? NaN;
    return seconds > 0 ? Math.min(wait / seconds, 1) : NaN;
  });
}

export interface SlowStep {
  readonly first: number;
  readonly last: number;
  readonly seconds: number;
  /** How many times as long as a usual step. */
  readonly factor: number;
}

export interface StepTimes {
  readonly median: number;
  /** 95 of 100 steps take no longer. */
  readonly p95: number;
  readonly longest: number;
  /** Whether each value is one step's; else they are means of several, and what lies between is not seen. */
  readonly isExact: boolean;
  readonly slow: readonly SlowStep[];
}

const MOST_SLOW = 5;
const SLOW_FACTOR = 2.5;

/** How long steps take, and the ones that took much longer; null without a single finite value. */
export function stepTimes(whole: ScalarColumns | undefined): StepTimes | null {
  if (!whole) return null;
  const rows = Array.from(whole.mean, (mean, row) => ({ mean, weight: whole.count[row] ?? 1 }));
  const sorted = rows.filter(({ mean }) => Number.isFinite(mean)).sort((a, b) => a.mean - b.mean);
  if (sorted.length === 0) return null;
  const median = weightedQuantile(sorted, 0.5);
  const longest = whole.max.reduce((most, value) => (value > most ? value : most), -Infinity);
  return {
    median,
    p95: weightedQuantile(sorted, 0.95),
    longest,
    isExact: whole.step.every((step, row) => step === whole.last[row]),
    slow: slowest(whole, median),
  };
}

interface Weighted {
  readonly mean: number;
  readonly weight: number;
}

function weightedQuantile(sorted: readonly Weighted[], share: number): number {
  const total = sorted.reduce((sum, { weight }) => sum + weight, 0);
  let sum = 0;
  for (const { mean, weight } of sorted) {
    sum += weight;
    if (sum >= share * total) return mean;
  }
  return sorted.at(-1)?.mean ?? NaN;
}

function slowest(whole: ScalarColumns, median: number): SlowStep[] {
  const found = Array.from(
    whole.max,
    (seconds, row): SlowStep => ({
      first: whole.step[row] ?? 0,
      last: whole.last[row] ?? 0,
      seconds,
      factor: seconds / median,
    }),
  );
  return found
    .filter(({ factor }) => factor >= SLOW_FACTOR && Number.isFinite(factor))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, MOST_SLOW);
}

export interface TimeBin {
  readonly lower: number;
  readonly upper: number;
  readonly steps: number;
}

/** Step times in bins of equal width up to what few steps exceed; the last bin holds those too. */
export function timeBins(whole: ScalarColumns, most = 40): TimeBin[] {
  const rows = Array.from(whole.mean, (mean, row) => ({ mean, weight: whole.count[row] ?? 1 }));
  const sorted = rows.filter(({ mean }) => Number.isFinite(mean)).sort((a, b) => a.mean - b.mean);
  const low = sorted[0]?.mean ?? 0;
  const bulk = weightedQuantile(sorted, 0.95);
  const high = Math.max(Math.min(bulk + (bulk - low) * 0.25, sorted.at(-1)?.mean ?? bulk), low * 1.02);
  if (sorted.length === 0 || !(high > low)) return [];
  const bins = Math.max(1, Math.min(most, Math.ceil(2 * Math.sqrt(sorted.length))));
  const width = (high - low) / bins;
  const steps = new Float64Array(bins);
  for (const { mean, weight } of sorted) {
    const bin = Math.min(Math.floor((mean - low) / width), bins - 1);
    steps[bin] = (steps[bin] ?? 0) + weight;
  }
  return Array.from(steps, (count, bin) => ({
    lower: low + bin * width,
    upper: bin === bins - 1 ? Math.max(sorted.at(-1)?.mean ?? 0, high) : low + (bin + 1) * width,
    steps: count,
  }));
}

/** In words what the loader costs, and what can be done about it. */
export interface WaitReading {
  readonly tone: "good" | "warning" | "bad";
  readonly text: string;
  readonly advice: string;
}

export function waitReading(share: number): WaitReading {
  const percent = share < 0.0095 ? "less than 1 %" : `${Math.round(share * 100)} %`;
  const text = `Waiting for data takes ${percent} of each step.`;
  if (share < 0.05) return { tone: "good", text, advice: "The loader keeps up." };
  if (share < 0.2) {
    return {
      tone: "warning",
      text,
      advice: "More loader workers (num_workers) or pin_memory=True may help a little.",
    };
  }
  return {
    tone: "bad",
    text,
    advice:
      "The model waits for data: try more loader workers (num_workers), persistent_workers=True, pin_memory=True with non_blocking copies, or cheaper transforms.",
  };
}
