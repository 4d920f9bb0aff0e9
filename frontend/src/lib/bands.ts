/** Bands of quantiles over time: their axis and their outlines. */

import { axisEnds, type AxisEnds } from "./axis-ends";
import { valueAxis, type ValueAxis, type ValueScale } from "./value-axis";

/** Pairs of columns of the quantiles 0, 1, 5, 25, 50, 75, 95, 99, 100 %, from the outermost in; then the median. */
export const BAND_PAIRS: readonly (readonly [low: number, high: number])[] = [
  [0, 8],
  [1, 7],
  [2, 6],
  [3, 5],
];
export const MEDIAN = 4;
export const BAND_LABELS = ["min – max", "1 – 99 %", "5 – 95 %", "25 – 75 %"] as const;
const COLUMNS = 9;

export function quantileAt(quantiles: Float64Array, sample: number, column: number): number {
  return quantiles[sample * COLUMNS + column] ?? NaN;
}

export interface FittedAxis {
  readonly axis: ValueAxis;
  readonly beyond: AxisEnds["beyond"];
}

/** An axis for all quantiles, or null when none is finite. Unless `everything` is wanted it leaves a few wild steps out. */
export function bandAxis(quantiles: Float64Array, scale: ValueScale, everything: boolean): FittedAxis | null {
  const column = (index: number): number[] => Array.from(quantiles).filter((_, i) => i % COLUMNS === index);
  const ends = axisEnds(column(0), column(COLUMNS - 1), everything);
  if (ends === null) return null;
  const typical: number[] = [];
  quantiles.forEach((value, i) => {
    const isExtreme = i % COLUMNS === 0 || i % COLUMNS === COLUMNS - 1;
    if (value !== 0 && Number.isFinite(value) && !isExtreme) typical.push(Math.abs(value));
  });
  typical.sort((a, b) => a - b);
  const reach = Math.max(Math.abs(ends.low), Math.abs(ends.high)) || 1;
  const threshold = typical[Math.floor(typical.length * (scale === "log" ? 0.02 : 0.5))] ?? reach;
  const axis = valueAxis(scale, ends.low, ends.high, Math.max(Math.min(threshold, reach), reach * 1e-12));
  return { axis, beyond: ends.beyond };
}

/** Stretches of neighbouring samples that have quantiles: bands are not drawn across samples without finite values. */
export function stretches(quantiles: Float64Array): { from: number; to: number }[] {
  const found: { from: number; to: number }[] = [];
  const count = Math.floor(quantiles.length / COLUMNS);
  for (let i = 0; i < count; i++) {
    if (Number.isNaN(quantileAt(quantiles, i, MEDIAN))) continue;
    const current = found.at(-1);
    if (current?.to === i) current.to = i + 1;
    else found.push({ from: i, to: i + 1 });
  }
  return found;
}
