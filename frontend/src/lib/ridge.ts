/** Histograms over time: one axis for all of them, each as a profile or as a column of densities. */

import { axisEnds } from "./axis-ends";
import type { FittedAxis } from "./bands";
import { magnitudeQuantile } from "./quantiles";
import { commonCells, drawnWidth, splitZeros, spread, totalOf, type Bins } from "./rebin";
import { valueAxis, type ValueAxis, type ValueScale } from "./value-axis";

/** Histograms one after the other: bins of number i are `offsets[i]` … `offsets[i + 1]` - 1. */
export interface HistogramSeries {
  readonly offsets: Int32Array;
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly counts: Float64Array;
}

export function lengthOf(series: HistogramSeries): number {
  return Math.max(0, series.offsets.length - 1);
}

export function binsAt(series: HistogramSeries, index: number): Bins {
  const [from, to] = [series.offsets[index] ?? 0, series.offsets[index + 1] ?? 0];
  return {
    lower: series.lower.subarray(from, to),
    upper: series.upper.subarray(from, to),
    counts: series.counts.subarray(from, to),
  };
}

/** A logarithmic axis shows at most so many decades; what is smaller lies in its linear middle. */
const MOST_DECADES = 12;

/**
 * An axis for the values of all histograms; null when they hold none but zeros, or none at all. It holds all of
 * `shown`; of the others, unless `everything` is wanted, a few wild ones may reach beyond.
 */
export function axisFor(
  shown: readonly Bins[],
  others: readonly Bins[],
  scale: ValueScale,
  everything: boolean,
): FittedAxis | null {
  const filled = (some: readonly Bins[]): Bins[] => some.filter((bins) => bins.counts.length > 0);
  const [mine, theirs] = [filled(shown), filled(others)];
  const around = axisEnds(theirs.map(lowest), theirs.map(highest), everything);
  const low = Math.min(...mine.map(lowest), around?.low ?? Infinity);
  const high = Math.max(...mine.map(highest), around?.high ?? -Infinity);
  if (low > high || (low === 0 && high === 0)) return null;
  const thresholds = [...mine, ...theirs].map((bins) => thresholdOf(bins, scale)).filter((size) => size > 0);
  const reach = Math.max(Math.abs(low), Math.abs(high));
  const threshold = Math.min(scale === "log" ? Math.min(...thresholds) : middle(thresholds), reach);
  return {
    axis: valueAxis(scale, low, high, Math.max(threshold, reach * 10 ** -MOST_DECADES)),
    beyond: around?.beyond ?? null,
  };
}

function lowest(bins: Bins): number {
  return bins.lower[0] ?? NaN;
}

function highest(bins: Bins): number {
  return bins.upper.at(-1) ?? NaN;
}

/** Linear up to the typical value, or on a logarithmic axis up to the least that is not rare. */
function thresholdOf(bins: Bins, scale: ValueScale): number {
  return magnitudeQuantile(bins, scale === "log" ? 0.002 : 0.5);
}

function middle(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 1;
}

/**
 * For each histogram a column of `rows` shares of its values, from the low end of the axis up: `rows` numbers a
 * histogram, which add up to 1.
 */
export function densities(series: HistogramSeries, axis: ValueAxis, rows: number): Float32Array {
  const count = lengthOf(series);
  const shares = new Float32Array(count * rows);
  for (let i = 0; i < count; i++) {
    const bins = binsAt(series, i);
    const total = totalOf(bins.counts);
    if (total > 0)
      shares.set(
        spread(bins, axis.place, rows).map((value) => value / total),
        i * rows,
      );
  }
  return shares;
}

/** The share that the brightest colour stands for: near the greatest, but not that of a single spike. */
export function brightest(shares: Float32Array): number {
  const some = Array.from(shares)
    .filter((share) => share > 0)
    .sort((a, b) => a - b);
  return some[Math.floor(0.97 * (some.length - 1))] ?? 1;
}

/** In pixels: narrower bins join in a profile, which is small. */
const LEAST_WIDTH = 2;

/** An outline of steps: at `x[i]` … `x[i + 1]` the height is `height[i]`; what is empty has the height 0. */
export interface Profile {
  readonly x: Float64Array;
  readonly height: Float64Array;
}

/** The share of the values (zeros left out) by the width on the axis, `width` wide; area 1, or 0 without values. */
export function profile(bins: Bins, axis: ValueAxis, width: number): Profile {
  const { bins: rest, zeros } = splitZeros(bins);
  const cells = commonCells([rest], (value) => axis.place(value) * width, LEAST_WIDTH);
  const counts = cells.counts[0] ?? new Float64Array();
  const total = totalOf(counts) + zeros;
  const outline = new Outline();
  for (let i = 0; i < counts.length; i++) {
    const left = cells.left[i] ?? 0;
    const width = drawnWidth(cells, i);
    outline.add(left, left + width, (counts[i] ?? 0) / total / width);
  }
  return outline.profile();
}

/** In pixels. Between the least values of either sign there is a gap, too, but none that can be seen. */
const SEEN_GAP = 0.5;

class Outline {
  private readonly x: number[] = [];
  private readonly height: number[] = [];

  /** From left to right; a stretch that the one before reached into, or nearly, begins where that ends. */
  add(left: number, right: number, height: number): void {
    const end = this.x.at(-1);
    if (end === undefined) this.x.push(left);
    else if (left > end + SEEN_GAP) {
      this.x.push(left);
      this.height.push(0);
    }
    this.x.push(Math.max(right, end ?? right));
    this.height.push(height);
  }

  profile(): Profile {
    return { x: Float64Array.from(this.x), height: Float64Array.from(this.height) };
  }
}

/** The greatest height of most profiles: one that is all in one place must not flatten the others. */
export function commonHeight(profiles: readonly Profile[]): number {
  const peaks = profiles.map((each) => Math.max(0, ...each.height)).filter((peak) => peak > 0);
  peaks.sort((a, b) => a - b);
  return peaks[Math.floor(0.9 * (peaks.length - 1))] ?? 1;
}
