/** The ends of an axis of values over time, which a few wild steps must not stretch until nothing else is seen. */

export interface AxisEnds {
  readonly low: number;
  readonly high: number;
  /** What lies beyond, when something was left out. */
  readonly beyond: { readonly low: number; readonly high: number } | null;
}

/** The share of the steps at either end that may be left out. */
const FEW = 0.05;
/** How many times wider the axis has to be with them, for them to be left out. */
const WILD = 30;

/** From the least and the greatest value of each step; null when none is finite. */
export function axisEnds(lows: readonly number[], highs: readonly number[], everything: boolean): AxisEnds | null {
  const [under, over] = [finiteSorted(lows), finiteSorted(highs)];
  const [low, high] = [under[0], over.at(-1)];
  if (low === undefined || high === undefined) return null;
  const usualLow = under[Math.floor(FEW * (under.length - 1))] ?? low;
  const usualHigh = over[Math.ceil((1 - FEW) * (over.length - 1))] ?? high;
  // Halves: the span of all doubles is no double.
  const isWild = high / 2 - low / 2 > WILD * (usualHigh / 2 - usualLow / 2) && usualHigh > usualLow;
  if (everything || !isWild) return { low, high, beyond: null };
  return { low: usualLow, high: usualHigh, beyond: { low, high } };
}

function finiteSorted(values: readonly number[]): number[] {
  return values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
}
