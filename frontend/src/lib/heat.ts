/** A heat map as pixels: which sample each pixel shows, and in which colour. Knows arrays only, no canvas. */

import { rampWord, wordFromRgb, type Ramp, type Theme } from "./colourmap";
import type { HeatScale } from "./heat-scale";

/** For each pixel across: the columns `from` … `to` - 1 that it shows; none where both are equal. */
export interface PixelColumns {
  readonly from: Int32Array;
  readonly to: Int32Array;
}

/** The steps of the first and the last pixel, inclusive; each step has the same width. */
export interface StepWindow {
  readonly first: number;
  readonly last: number;
}

/** Sampled ever more rarely, as a training is after its first steps, is not yet missing. */
const GROWTH = 0.3;

/** Where column i ends: at the next one, unless samples are missing in between. */
export function columnEnds(first: Float64Array, last: Float64Array): Float64Array {
  const gaps = Array.from(first.subarray(1), (next, i) => next - (last[i] ?? 0)).sort((a, b) => a - b);
  const usual = Math.max(1, gaps[gaps.length >> 1] ?? 1);
  return Float64Array.from(last, (step, i) => {
    const next = first[i + 1] ?? Infinity;
    const expected = Math.max(2 * usual, GROWTH * (step - (first[0] ?? 0)));
    return next - step <= expected ? next : step + usual;
  });
}

export function pixelColumns(first: Float64Array, last: Float64Array, window: StepWindow, width: number): PixelColumns {
  const [from, to] = [new Int32Array(width), new Int32Array(width)];
  const ends = columnEnds(first, last);
  const scale = width / (window.last - window.first + 1);
  for (let i = 0; i < first.length; i++) {
    const left = ((first[i] ?? 0) - window.first) * scale;
    const right = ((ends[i] ?? 0) - window.first) * scale;
    if (right <= 0 || left >= width) continue;
    const start = Math.min(width - 1, Math.max(0, Math.round(left)));
    // A column narrower than a pixel still has the one where it begins.
    const end = Math.min(width, Math.max(Math.round(right), start + 1));
    for (let x = start; x < end; x++) {
      if (from[x] === to[x]) from[x] = i;
      to[x] = i + 1;
    }
  }
  return { from, to };
}

export interface HeatColours {
  readonly ramp: Ramp;
  /** For what a logarithm cannot show: exact zeros. */
  readonly zero: number;
  /** The two colours of the stripes of columns with NaN or infinite values. */
  readonly stripes: readonly [number, number];
}

export function heatColours(ramp: Ramp, theme: Theme): HeatColours {
  const zero = theme === "dark" ? wordFromRgb(104, 108, 116) : wordFromRgb(160, 164, 170);
  const dark = theme === "dark" ? wordFromRgb(0, 0, 0) : wordFromRgb(255, 255, 255);
  return { ramp, zero, stripes: [wordFromRgb(233, 20, 132), dark] };
}

/** Marks a cell whose pixels are striped; no colour of a ramp is transparent, so it cannot be mistaken. */
export const STRIPED = 1;
/** Marks a cell without a sample: its pixels stay as they are. */
export const EMPTY = 0;

/** One word a column: a colour, STRIPED or EMPTY. `bad` are shares of non-finite values, where they are known. */
export function rowWords(
  values: Float32Array,
  bad: Float32Array | null,
  scale: HeatScale,
  colours: HeatColours,
): Uint32Array {
  return Uint32Array.from(values, (value, i) => {
    if ((bad?.[i] ?? 0) > 0 || Math.abs(value) === Infinity) return STRIPED;
    if (Number.isNaN(value)) return EMPTY;
    const place = scale.place(value);
    return place === -Infinity ? colours.zero : rampWord(colours.ramp, place);
  });
}

/** Words of a picture, row after row. */
export interface Picture {
  readonly words: Uint32Array;
  readonly width: number;
  readonly height: number;
}

/**
 * Fills the stretch from `top` to `bottom` (exclusive) with a row's cells. Where one pixel stands for several cells,
 * stripes win over colours and later cells over earlier ones.
 */
export function paintRow(
  picture: Picture,
  top: number,
  bottom: number,
  columns: PixelColumns,
  cells: Uint32Array,
  colours: HeatColours,
  stripe: number,
): void {
  const [start, end] = [Math.max(0, top), Math.min(picture.height, bottom)];
  for (let x = 0; x < picture.width && start < end; x++) {
    const word = pixelWord(cells, columns.from[x] ?? 0, columns.to[x] ?? 0);
    if (word === EMPTY) continue;
    for (let y = start; y < end; y++) {
      const colour = word === STRIPED ? colours.stripes[Math.floor((x + y) / stripe) & 1] : word;
      picture.words[y * picture.width + x] = colour ?? 0;
    }
  }
}

function pixelWord(cells: Uint32Array, from: number, to: number): number {
  let shown = EMPTY;
  for (let i = from; i < to; i++) {
    const word = cells[i] ?? EMPTY;
    if (word === STRIPED) return STRIPED;
    if (word !== EMPTY) shown = word;
  }
  return shown;
}

/** How a closed group stands for its tensors: by the value that is farthest from zero, or by the least. */
export type GroupRule = "farthest" | "least";

/** One row of values for the tensors `from` … `to` - 1; a column is NaN where none of them has a sample. */
export function groupValues(
  values: Float32Array,
  columns: number,
  from: number,
  to: number,
  rule: GroupRule,
): Float32Array {
  const group = values.slice(from * columns, (from + 1) * columns);
  for (let row = from + 1; row < to; row++) {
    for (let i = 0; i < columns; i++) {
      const value = values[row * columns + i] ?? NaN;
      const known = group[i] ?? NaN;
      const wins = rule === "least" ? value < known : Math.abs(value) > Math.abs(known);
      if (wins || (Number.isNaN(known) && !Number.isNaN(value))) group[i] = value;
    }
  }
  return group;
}

/** The column whose stretch holds the step, or the last one before it; -1 before all. */
export function columnAt(first: Float64Array, step: number): number {
  let [low, high] = [0, first.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((first[middle] ?? 0) <= step) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
