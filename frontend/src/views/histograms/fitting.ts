/** The axis of values of the large histogram. */

import type { FittedAxis } from "../../lib/bands";
import { quantilesOf } from "../../lib/quantiles";
import type { Bins } from "../../lib/rebin";
import { axisFor } from "../../lib/ridge";
import type { ValueScale } from "../../lib/value-axis";
import type { Fit } from "./choices";

/** The least share of the axis that 98 % of the values have to take. */
const ENOUGH = 0.22;

/** `others` are the histograms of all steps; an axis that holds them, too, stands still while steps change. */
export function fittedAxis(
  shown: readonly Bins[],
  others: readonly Bins[],
  scale: ValueScale,
  fit: Fit,
  everything: boolean,
): FittedAxis | null {
  const own = axisFor(shown, [], scale, true);
  if (fit === "shown") return own;
  const common = axisFor(shown, others, scale, everything);
  if (fit === "all" || common === null || own === null) return common;
  return shown.some((bins) => extent(bins, common) >= Math.min(ENOUGH, extent(bins, own))) ? common : own;
}

function extent(bins: Bins, { axis }: FittedAxis): number {
  const [low, high] = quantilesOf(bins, [0.01, 0.99]);
  return axis.place(high ?? 0) - axis.place(low ?? 0);
}
