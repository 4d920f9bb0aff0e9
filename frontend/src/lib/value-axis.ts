/** An axis for the values of a tensor: linear, symmetric-logarithmic, or logarithmic in the magnitude on both sides. */

export type ValueScale = "linear" | "symlog" | "log";

export interface AxisTick {
  readonly value: number;
  /** 0 at the low end of the axis, 1 at the high end. */
  readonly place: number;
}

export interface ValueAxis {
  readonly scale: ValueScale;
  readonly low: number;
  readonly high: number;
  /** The magnitude below which the axis is linear; 0 on a linear axis. */
  readonly threshold: number;
  /** 0 … 1 inside the axis, outside beyond. */
  place(value: number): number;
  valueAt(place: number): number;
  ticks(most: number): AxisTick[];
}

/** How many decades the stretch between −threshold and threshold takes on a logarithmic axis, each way from zero. */
const MIDDLE = 0.5;

interface Warp {
  forth(value: number): number;
  back(warped: number): number;
}

/** `low` and `high` may be equal: then the axis is a little wider than the one value. */
export function valueAxis(scale: ValueScale, low: number, high: number, threshold: number): ValueAxis {
  const [from, to] = widened(low, high);
  const least = scale === "linear" ? 0 : Math.max(threshold, Number.MIN_VALUE * 2 ** 52);
  const warp = warpOf(scale, least);
  const [start, end] = [warp.forth(from), warp.forth(to)];
  const place = (value: number): number => (warp.forth(value) - start) / (end - start);
  const axis = { scale, low: from, high: to, threshold: least, place };
  return {
    ...axis,
    valueAt: (at) => warp.back(start * (1 - at) + end * at),
    ticks: (most) => ticksOf(axis, most),
  };
}

function widened(low: number, high: number): [number, number] {
  if (high > low) return [low, high];
  const margin = Math.abs(low) / 8 || 1;
  return [low - margin, low + margin];
}

function warpOf(scale: ValueScale, threshold: number): Warp {
  // Half of everything: the span of all doubles is no double.
  if (scale === "linear") return { forth: (value) => value / 2, back: (warped) => warped * 2 };
  if (scale === "symlog") {
    return { forth: (value) => areaSine(value, threshold), back: (warped) => hyperbolicSine(warped, threshold) };
  }
  return { forth: (value) => twoSidedLog(value, threshold), back: (warped) => twoSidedPower(warped, threshold) };
}

// Far out both are a logarithm and a power; said so, nothing overflows on the way.
const FAR = 1e8;

function areaSine(value: number, scale: number): number {
  const ratio = value / scale;
  if (Math.abs(ratio) < FAR) return Math.asinh(ratio);
  const size = Math.log(Math.abs(value)) - Math.log(scale) + Math.LN2;
  return value < 0 ? -size : size;
}

function hyperbolicSine(warped: number, scale: number): number {
  const near = Math.sinh(warped);
  if (Math.abs(near) < FAR) return near * scale;
  const value = Math.exp(Math.abs(warped) - Math.LN2 + Math.log(scale));
  return warped < 0 ? -value : value;
}

function twoSidedLog(value: number, threshold: number): number {
  const ratio = Math.abs(value) / threshold;
  const size = ratio < 1 ? MIDDLE * ratio : MIDDLE + Math.log10(Math.abs(value)) - Math.log10(threshold);
  return value < 0 ? -size : size;
}

function twoSidedPower(warped: number, threshold: number): number {
  const size = Math.abs(warped);
  const value = size < MIDDLE ? (size / MIDDLE) * threshold : 10 ** (size - MIDDLE + Math.log10(threshold));
  return warped < 0 ? -value : value;
}

type Placed = Pick<ValueAxis, "scale" | "low" | "high" | "threshold" | "place">;

function ticksOf(axis: Placed, most: number): AxisTick[] {
  const values = axis.scale === "linear" ? niceValues(axis.low, axis.high, most) : decadeValues(axis, most);
  return values.map((value) => ({ value, place: axis.place(value) }));
}

/** Multiples of 1, 2 or 5 times a power of ten, at most `most` of them. */
export function niceValues(low: number, high: number, most: number): number[] {
  const rough = ((high / 2 - low / 2) / Math.max(1, most)) * 2;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => (high - low) / size <= most) ?? 10 * power;
  const values: number[] = [];
  // By index, so that errors do not add up; "+ 0" turns −0 into 0.
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && values.length <= most; i++) {
    values.push(Number((i * step).toPrecision(12)) + 0);
  }
  return values;
}

function decadeValues(axis: Placed, most: number): number[] {
  const top = Math.floor(Math.log10(Math.max(Math.abs(axis.low), Math.abs(axis.high))) + 1e-9);
  const nearest = axis.low > 0 ? axis.low : axis.high < 0 ? -axis.high : axis.threshold;
  const bottom = Math.ceil(Math.log10(nearest) - 1e-9);
  for (let stride = 1; stride <= top - bottom + 1; stride++) {
    const values = decades(axis, bottom, top, stride);
    if (fits(axis, values, most)) return refined(axis, values, bottom, top, most);
  }
  return niceValues(axis.low, axis.high, Math.min(most, 3));
}

function decades(axis: Placed, bottom: number, top: number, stride: number, factors = [1]): number[] {
  const sizes: number[] = [];
  for (let exponent = top; exponent >= bottom; exponent -= stride) {
    for (const factor of factors) sizes.push(Number(`${factor}e${exponent}`));
  }
  const values = [...sizes.map((size) => -size), 0, ...sizes];
  return values.filter((value) => value >= axis.low && value <= axis.high).sort((a, b) => a - b);
}

function fits(axis: Placed, values: number[], most: number): boolean {
  const places = values.map(axis.place);
  return places.every((place, i) => i === 0 || place - (places[i - 1] ?? 0) >= 0.999 / most);
}

/** Few decades leave the axis bare: fives and twos are added where there is room, from the outside in. */
function refined(axis: Placed, values: number[], bottom: number, top: number, most: number): number[] {
  if (values.length > 3) return values;
  const kept = [...values];
  for (const factor of [5, 2]) {
    for (const value of decades(axis, bottom - 1, top, 1, [factor]).reverse()) {
      const place = axis.place(value);
      if (kept.every((other) => Math.abs(axis.place(other) - place) >= 0.999 / most)) kept.push(value);
    }
  }
  if (kept.length < 2) return niceValues(axis.low, axis.high, Math.min(most, 4));
  return kept.sort((a, b) => a - b);
}
