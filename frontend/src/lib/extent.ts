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

/**
 * The y of all lines between two x. Of the bands only the bulk counts: single peaks may leave the picture, for
 * else one hiccup makes a flat line of everything.
 */
export function extentY(drawn: readonly Drawn[], [first, last]: Extent, log: boolean): Extent | null {
  let [low, high] = [Infinity, -Infinity];
  const take = (value: number): void => {
    if (!Number.isFinite(value) || (log && value <= 0)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (const each of drawn) {
    // One point to each side, because the line to it is seen.
    const from = Math.max(0, lowerBound(each.x, first) - 1);
    const to = Math.min(each.x.length, lowerBound(each.x, last) + 1);
    for (let index = from; index < to; index++) take(each.y[index] ?? NaN);
    if (each.low) take(quantile(each.low.subarray(from, to), 0.03));
    if (each.high) take(quantile(each.high.subarray(from, to), 0.97));
  }
  return low > high ? null : padded(low, high, log);
}

function quantile(values: Float64Array, share: number): number {
  const finite = values.filter(Number.isFinite).sort();
  return finite[Math.round((finite.length - 1) * share)] ?? NaN;
}

function padded(low: number, high: number, log: boolean): Extent {
  if (log) {
    const margin = Math.max(Math.log10(high / low) * 0.06, 0.02);
    return [low / 10 ** margin, high * 10 ** margin];
  }
  if (low === high) {
    const margin = Math.abs(low) * 0.1 || 1;
    return [low - margin, high + margin];
  }
  const margin = (high - low) * 0.06;
  // A quantity that is never negative keeps its zero line when that is near.
  return [low >= 0 && low - margin < 0 ? 0 : low - margin, high + margin];
}
