/** The processes of a distributed training side by side. */

import type { ScalarColumns } from "../wire/types";
import { lowerBound } from "./nearest";
import { phaseShares, phaseSplit, type PhaseName, recentFrom } from "./phases";

type Scalars = ReadonlyMap<string, ScalarColumns>;

export interface RankTimes {
  readonly rank: number;
  /** Mean seconds of the newest steps. */
  readonly seconds: number;
  readonly shares: Readonly<Record<PhaseName, number>>;
  /** Seconds of a step without the backward pass, in which ranks wait for each other. */
  readonly own: number;
}

/** What each rank spends its newest steps on; ranks without a time are left out. */
export function rankTimes(ranks: ReadonlyMap<number, Scalars>): RankTimes[] {
  return [...ranks].flatMap(([rank, scalars]) => {
    const split = phaseSplit(scalars);
    if (!split) return [];
    const from = recentFrom(split.whole);
    const seconds = meanFrom(split.whole, from);
    const shares = phaseShares(split, from);
    return [{ rank, seconds, shares, own: seconds * (1 - shares.backward) }];
  });
}

function meanFrom(columns: ScalarColumns, from: number): number {
  let [sum, weight] = [0, 0];
  for (let row = from; row < columns.mean.length; row++) {
    const [mean, steps] = [columns.mean[row] ?? NaN, columns.count[row] ?? 1];
    if (Number.isFinite(mean)) [sum, weight] = [sum + mean * steps, weight + steps];
  }
  return weight > 0 ? sum / weight : NaN;
}

export interface RankSpread {
  /** Steps at which all ranks are known, ascending. */
  readonly step: Float64Array;
  readonly least: Float64Array;
  readonly most: Float64Array;
  /** The rank that took longest. */
  readonly slowest: Int32Array;
}

/** Compares the ranks where all of them have a value: rows of the first rank, and of each other the row there. */
export function rankSpread(ranks: ReadonlyMap<number, ScalarColumns>): RankSpread {
  const [first, ...others] = [...ranks];
  const rows: { step: number; least: number; most: number; slowest: number }[] = [];
  for (const [row, step] of (first?.[1].last ?? new Float64Array()).entries()) {
    const values = [
      [first?.[0] ?? 0, first?.[1].mean[row] ?? NaN] as const,
      ...others.map(([rank, columns]) => [rank, valueAt(columns, step)] as const),
    ];
    if (values.some(([, value]) => !Number.isFinite(value))) continue;
    const slowest = values.reduce((worst, each) => (each[1] > worst[1] ? each : worst));
    rows.push({ step, least: Math.min(...values.map(([, value]) => value)), most: slowest[1], slowest: slowest[0] });
  }
  return {
    step: Float64Array.from(rows, ({ step }) => step),
    least: Float64Array.from(rows, ({ least }) => least),
    most: Float64Array.from(rows, ({ most }) => most),
    slowest: Int32Array.from(rows, ({ slowest }) => slowest),
  };
}

/** The value of the bucket that holds a step; NaN in a gap. */
function valueAt(columns: ScalarColumns, step: number): number {
  const row = lowerBound(columns.last, step);
  return (columns.step[row] ?? Infinity) <= step ? (columns.mean[row] ?? NaN) : NaN;
}

export interface RankReading {
  readonly text: string;
  readonly slowest: number | null;
}

/** More than this beyond the median of the others is worth a word. */
const WORTH_A_WORD = 0.1;

/** In words whether one rank holds the others up. */
export function rankReading(times: readonly RankTimes[]): RankReading {
  if (times.length < 2) return { text: "", slowest: null };
  const worst = times.reduce((most, each) => (each.own > most.own ? each : most));
  const others = times
    .filter((each) => each !== worst)
    .map(({ own }) => own)
    .sort((a, b) => a - b);
  const middle = (others.length - 1) / 2;
  const usual = ((others[Math.floor(middle)] ?? NaN) + (others[Math.ceil(middle)] ?? NaN)) / 2;
  const more = worst.own / usual - 1;
  if (!(more > WORTH_A_WORD)) return { text: `The ${times.length} ranks take about the same time.`, slowest: null };
  return {
    text: `Rank ${worst.rank} slows down the others: outside the backward pass, where ranks wait for each other, it takes ${Math.round(more * 100)} % longer.`,
    slowest: worst.rank,
  };
}
