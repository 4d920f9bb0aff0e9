/** How far a chart has to reach so that what is drawn can be seen. */

import { lowerBound } from "./nearest";

export interface Drawn {
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly low?: Float64Array | undefined;
  readonly high?: Float64Array | undefined;
}

export type Extent = readonly [low: number, high: number];

/** From the first to the last x of all; null without points. */
export function extentX(drawn: readonly Drawn[]): Extent | null {
  let [low, high] = [Infinity, -Infinity];
  for (const { x } of drawn) {
    low = Math.min(low, x[0] ?? Infinity);
    high = Math.max(high, x[x.length - 1] ?? -Infinity);
  }
  if (low > high) return null;
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

export interface ExtentY {
  readonly range: Extent;
  /** Whether some points lie beyond it. */
  readonly hides: boolean;
}

/** A few points that reach so many times farther than all others are left out of the picture. */
const FARTHEST = 20;
/** The share of points at each end that counts as few. */
const FEW = 0.02;

/**
 * The y of all lines between two x, without the few that would make a flat line of all others unless `whole`. Of
 * the bands only the bulk counts: a single hiccup in a bucket is no reason to shrink everything. Null: no points.
 */
export function extentY(drawn: readonly Drawn[], seen: Extent, { log = false, whole = false } = {}): ExtentY | null {
  const values: number[] = [];
  const edges: number[] = [];
  const usable = (value: number): boolean => Number.isFinite(value) && (!log || value > 0);
  for (const each of drawn) {
    // One point to each side, because the line to it is seen.
    const from = Math.max(0, lowerBound(each.x, seen[0]) - 1);
    const to = Math.min(each.x.length, lowerBound(each.x, seen[1]) + 1);
    for (let index = from; index < to; index++) if (usable(each.y[index] ?? NaN)) values.push(each.y[index] ?? 0);
    if (each.low) edges.push(quantile(each.low.subarray(from, to).filter(usable), 0.03));
    if (each.high) edges.push(quantile(each.high.subarray(from, to).filter(usable), 0.97));
  }
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return null;
  const [low, high] = [sorted[0] ?? 0, sorted[sorted.length - 1] ?? 0];
  const [bulkLow, bulkHigh] = [quantile(sorted, FEW), quantile(sorted, 1 - FEW)];
  const hides = !whole && !log && bulkHigh > bulkLow && high - low > FARTHEST * (bulkHigh - bulkLow);
  if (hides) return { range: padded(bulkLow, bulkHigh, log, 0.25), hides };
  const kept = edges.filter(Number.isFinite);
  return { range: padded(Math.min(low, ...kept), Math.max(high, ...kept), log, 0.06), hides };
}

function quantile(values: Float64Array, share: number): number {
  const sorted = values.length > 1 ? values.slice().sort() : values;
  return sorted[Math.round((sorted.length - 1) * share)] ?? NaN;
}

function padded(low: number, high: number, log: boolean, share: number): Extent {
  if (log) {
    const margin = Math.max(Math.log10(high / low) * share, 0.02);
    return [low / 10 ** margin, high * 10 ** margin];
  }
  // Sums of the same numbers in another order differ in their last digits: that is no slope.
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {
    const margin = Math.abs(low) * 0.1;
    return margin > 0 ? [low - margin, high + margin] : [0, 1];
  }
  const margin = (high - low) * share;
  // A quantity that is never negative keeps its zero line when that is near.
  return [low >= 0 && low - margin < 0 ? 0 : low - margin, high + margin];
}
