/** From values to places on a colour ramp, with limits that a few odd values cannot spoil. */

import { niceValues } from "./value-axis";

export type HeatScaleKind = "log" | "share" | "signed" | "linear" | "change";

export interface HeatTick {
  readonly value: number;
  readonly place: number;
}

export interface HeatScale {
  readonly kind: HeatScaleKind;
  /** What the ends of the ramp stand for; values beyond are drawn as the nearer end. */
  readonly low: number;
  readonly high: number;
  /** Whether there are values beyond the ends. */
  readonly below: boolean;
  readonly above: boolean;
  /** 0 … 1, not limited; NaN for NaN; −Infinity for what a logarithm cannot show, which is 0 and less. */
  place(value: number): number;
  ticks(most: number): HeatTick[];
}

/**
 * "full" shows all values. "robust" leaves out a hundredth at either end, and what lies far from the bulk: a few
 * tensors that are zero but for rounding must not take the colours from all others.
 */
export type HeatLimits = "robust" | "full";

const MOST_LOOKED_AT = 60000;
const OUTLIERS = 0.01;
/** How many times the distance of the quartiles beyond them the bulk reaches, in decades, which are at least these. */
const FENCE = 2;
const LEAST_SPREAD = 0.4;

export function heatScale(kind: HeatScaleKind, values: Float32Array, limits: HeatLimits): HeatScale {
  if (kind === "log")
    return logScale(
      sample(values, (value) => value > 0),
      limits,
    );
  if (kind === "change")
    return changeScale(
      sample(values, (value) => value > 0),
      limits,
    );
  if (kind === "signed")
    return signedScale(
      sample(values, (value) => value !== 0),
      limits,
    );
  if (kind === "share") return linearScale("share", 0, 1, []);
  const sorted = sample(values, () => true);
  const [low, high] = ends(sorted, limits);
  return linearScale("linear", low, high, sorted);
}

/** The finite values that pass, sorted; of very many every so-manieth, which is as good for limits. */
function sample(values: Float32Array, passes: (value: number) => boolean): number[] {
  const stride = Math.max(1, Math.floor(values.length / MOST_LOOKED_AT));
  const kept: number[] = [];
  for (let i = 0; i < values.length; i += stride) {
    const value = values[i] ?? NaN;
    if (Number.isFinite(value) && passes(value)) kept.push(value);
  }
  return kept.sort((a, b) => a - b);
}

function ends(sorted: readonly number[], limits: HeatLimits): [low: number, high: number] {
  const share = limits === "robust" ? OUTLIERS : 0;
  return [percentile(sorted, share), percentile(sorted, 1 - share)];
}

/** By nearest rank, of numbers that are sorted; NaN when there are none. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.round(share * (sorted.length - 1))] ?? NaN;
}

function isOutside(sorted: readonly number[], low: number, high: number): { below: boolean; above: boolean } {
  return { below: (sorted[0] ?? low) < low, above: (sorted.at(-1) ?? high) > high };
}

function logScale(sorted: readonly number[], limits: HeatLimits): HeatScale {
  let [low, high] = ends(sorted, limits);
  if (!(low > 0)) [low, high] = [1e-3, 1];
  else if (limits === "robust") [low, high] = fenced(sorted, low, high);
  // Less than a third of a decade would blow noise up to a storm.
  if (high / low < 2) [low, high] = [low / Math.SQRT2, high * Math.SQRT2];
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const place = (value: number): number =>
    value > 0 ? (Math.log10(value) - from) / (to - from) : value <= 0 ? -Infinity : NaN;
  const ticks = (most: number): HeatTick[] => logTicks(from, to, most).map((value) => ({ value, place: place(value) }));
  return { kind: "log", low, high, ...isOutside(sorted, low, high), place, ticks };
}

function fenced(sorted: readonly number[], low: number, high: number): [low: number, high: number] {
  const [lower, upper] = [Math.log10(percentile(sorted, 0.25)), Math.log10(percentile(sorted, 0.75))];
  const reach = FENCE * Math.max(upper - lower, LEAST_SPREAD);
  return [Math.max(low, 10 ** (lower - reach)), Math.min(high, 10 ** (upper + reach))];
}

function logTicks(from: number, to: number, most: number): number[] {
  for (let stride = 1; ; stride++) {
    const exponents: number[] = [];
    for (let e = Math.floor(to + 1e-9); e >= from - 1e-9; e -= stride) exponents.unshift(e);
    if (exponents.length > most) continue;
    if (exponents.length >= 2) return exponents.map((e) => Number(`1e${e}`));
    return fineLogTicks(from, to, most);
  }
}

function fineLogTicks(from: number, to: number, most: number): number[] {
  const powers = [Math.floor(from), Math.floor(to)];
  const values = new Set(powers.flatMap((power) => [1, 2, 5].map((factor) => Number(`${factor}e${power}`))));
  const inside = [...values].filter((value) => Math.log10(value) >= from && Math.log10(value) <= to);
  return inside.length > 0 ? inside.sort((a, b) => a - b).slice(0, most) : [10 ** ((from + to) / 2)];
}

/** Zero is in the middle; magnitudes grow like a logarithm away from it, so that small layers show beside big ones. */
function signedScale(sorted: readonly number[], limits: HeatLimits): HeatScale {
  const sizes = sorted.map(Math.abs).sort((a, b) => a - b);
  const high = percentile(sizes, limits === "robust" ? 1 - OUTLIERS : 1) || 1;
  const threshold = Math.max(percentile(sizes, 0.1) || 0, high * 1e-6);
  const reach = Math.asinh(high / threshold);
  const place = (value: number): number => 0.5 + Math.asinh(value / threshold) / reach / 2;
  const outside = isOutside(sorted, -high, high);
  return {
    kind: "signed",
    low: -high,
    high,
    ...outside,
    place,
    ticks: (most) => signedTicks(high, threshold, place, most),
  };
}

function signedTicks(high: number, threshold: number, place: (value: number) => number, most: number): HeatTick[] {
  const sizes: number[] = [];
  let last = place(high) + 1;
  for (let e = Math.floor(Math.log10(high)); e >= Math.log10(threshold) - 0.3; e--) {
    const size = Number(`1e${e}`);
    if (last - place(size) < 1 / most || place(size) - 0.5 < 1 / most) continue;
    last = place(size);
    sizes.push(size);
  }
  if (sizes.length === 0) sizes.push(roundedDown(high));
  const values = [...sizes.map((size) => -size), 0, ...sizes.reverse()];
  return values.map((value) => ({ value, place: place(value) }));
}

function roundedDown(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return Number((Math.floor(value / power) * power).toPrecision(1));
}

/** Ratios to a row's own median: 1 in the middle, a tenth as far from it as ten. */
function changeScale(sorted: readonly number[], limits: HeatLimits): HeatScale {
  const sizes = sorted.map((value) => Math.abs(Math.log10(value))).sort((a, b) => a - b);
  const reach = Math.max(percentile(sizes, limits === "robust" ? 1 - OUTLIERS : 1) || 0, Math.log10(2));
  const place = (value: number): number =>
    value > 0 ? 0.5 + Math.log10(value) / reach / 2 : value <= 0 ? -Infinity : NaN;
  const [low, high] = [10 ** -reach, 10 ** reach];
  const ticks = (most: number): HeatTick[] =>
    logTicks(-reach, reach, most).map((value) => ({ value, place: place(value) }));
  return { kind: "change", low, high, ...isOutside(sorted, low, high), place, ticks };
}

function linearScale(kind: "share" | "linear", from: number, to: number, sorted: readonly number[]): HeatScale {
  let [low, high] = [from, to];
  if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = [0, 1];
  if (!(high > low)) [low, high] = [low - (Math.abs(low) / 8 || 0.5), high + (Math.abs(high) / 8 || 0.5)];
  const place = (value: number): number => (value / 2 - low / 2) / (high / 2 - low / 2);
  const ticks = (most: number): HeatTick[] =>
    niceValues(low, high, most).map((value) => ({ value, place: place(value) }));
  return { kind, low, high, ...isOutside(sorted, low, high), place, ticks };
}

/**
 * Each row divided by its own median (by the median magnitude where values have signs): rows of any size can then be
 * compared in how they change. Rows without one stay NaN.
 */
export function againstOwnMedian(values: Float32Array, columns: number): Float32Array {
  const relative = new Float32Array(values.length).fill(NaN);
  for (let start = 0; start + columns <= values.length && columns > 0; start += columns) {
    const row = values.subarray(start, start + columns);
    const sizes = Array.from(row, Math.abs)
      .filter((size) => size > 0 && Number.isFinite(size))
      .sort((a, b) => a - b);
    const median = percentile(sizes, 0.5);
    row.forEach((value, i) => (relative[start + i] = value / median));
  }
  return relative;
}
