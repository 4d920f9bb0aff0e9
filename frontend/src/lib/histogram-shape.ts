/** How high the bars of a histogram are, and the axis that they stand on. */

import { commonCells, cutAt, drawnWidth, edgesOf, sameGrid, splitZeros, totalOf, type Bins, type Cells } from "./rebin";
import { niceValues, type ValueAxis } from "./value-axis";

/**
 * density: the share of the values divided by the share of the axis that the bar covers, so that equal areas are
 * equal numbers of values and 1 is what an even spread would give. count: what is in the bar, however wide it is.
 * share: the same divided by all values.
 */
export type HeightMode = "density" | "count" | "share";

export interface Histogram {
  /** Finite values, zeros among them. */
  readonly bins: Bins;
  /** NaN and infinite values. */
  readonly nonfinite: number;
}

/** Bars of one histogram, or of two on common cells. */
export interface Bars {
  readonly cells: Cells;
  /** Values that shares are shares of: all, zeros and non-finite ones among them. One for each histogram. */
  readonly totals: readonly number[];
  readonly zeros: readonly number[];
  /** Whether bins of different grids had to be cut: counts are then fractions. */
  readonly approximate: boolean;
}

/** In pixels: narrower bins join, as they could not be told apart. */
export const LEAST_BAR = 2;

/** `width` is that of the whole axis in pixels. */
export function barsOf(histograms: readonly Histogram[], axis: ValueAxis, width: number): Bars {
  const split = histograms.map((each) => splitZeros(each.bins));
  const [a, b] = split.map((each) => each.bins);
  const approximate = a !== undefined && b !== undefined && !sameGrid(a, b);
  const bins = approximate ? [cutAt(a, edgesOf(b)), cutAt(b, edgesOf(a))] : split.map((each) => each.bins);
  return {
    cells: commonCells(bins, (value) => axis.place(value) * width, LEAST_BAR),
    totals: histograms.map((each) => totalOf(each.bins.counts) + each.nonfinite),
    zeros: split.map((each) => each.zeros),
    approximate,
  };
}

/** One height a cell. */
export function heights(bars: Bars, which: number, mode: HeightMode, width: number): Float64Array {
  const { counts } = bars.cells;
  const total = bars.totals[which] || 1;
  return (counts[which] ?? new Float64Array()).map((count, i) => {
    if (mode === "count") return count;
    if (mode === "share") return count / total;
    return ((count / total) * width) / drawnWidth(bars.cells, i);
  });
}

export interface HeightAxis {
  readonly log: boolean;
  readonly top: number;
  /** 0 on the ground, 1 at the top. */
  place(height: number): number;
  ticks(most: number): number[];
}

/** Holds all heights; a logarithmic one begins below the least that is not zero. */
export function heightAxis(columns: readonly Float64Array[], log: boolean): HeightAxis {
  let [top, least] = [0, Infinity];
  for (const column of columns) {
    for (const height of column) {
      top = Math.max(top, height);
      if (height > 0) least = Math.min(least, height);
    }
  }
  if (!(top > 0)) [top, least] = [1, 0.1];
  return log ? logHeights(Math.max(least / 2, top * 1e-12), top * 1.3) : linearHeights(top * 1.05);
}

function linearHeights(top: number): HeightAxis {
  return { log: false, top, place: (height) => height / top, ticks: (most) => niceValues(0, top, most) };
}

function logHeights(bottom: number, top: number): HeightAxis {
  const [from, to] = [Math.log10(bottom), Math.log10(top)];
  const place = (height: number): number => (height > 0 ? Math.max(0, (Math.log10(height) - from) / (to - from)) : 0);
  const ticks = (most: number): number[] => {
    const [low, high] = [Math.ceil(from), Math.floor(to)];
    const stride = Math.max(1, Math.ceil((high - low + 1) / most));
    const powers: number[] = [];
    for (let power = high; power >= low; power -= stride) powers.unshift(Number(`1e${power}`));
    return powers;
  };
  return { log: true, top, place, ticks };
}

/** For each cell the height of the first histogram minus that of the second. */
export function differences(a: Float64Array, b: Float64Array): Float64Array {
  return a.map((height, i) => height - (b[i] ?? 0));
}

/** The cell under a pixel, or the nearest within reach of a pointer; -1 when there is none. */
export function cellAt(cells: Cells, x: number, reach: number): number {
  let [best, nearest] = [-1, reach];
  for (let i = 0; i < cells.left.length; i++) {
    const [left, right] = [cells.left[i] ?? 0, cells.right[i] ?? 0];
    const away = Math.max(left - x, x - Math.max(right, left + 1), 0);
    if (away <= nearest) [best, nearest] = [i, away];
    if (away === 0) return i;
  }
  return best;
}
