/** Brings scalars together that were recorded at different steps, or come in buckets of different width. */

import type { ScalarColumns } from "../wire/types";
import { lowerBound } from "./nearest";

/**
 * For each row of `base` the sum of `other` over its steps, divided by the number of values that `base` has there:
 * so parts of a whole stay parts of it, also where a part was not recorded in every step.
 */
export function perStep(base: ScalarColumns, other: ScalarColumns | undefined): Float64Array {
  const found = new Float64Array(base.step.length);
  if (!other) return found.fill(NaN);
  for (const [row, first] of base.step.entries()) {
    const last = base.last[row] ?? first;
    let sum = 0;
    for (let at = lowerBound(other.last, first); at < other.step.length && (other.step[at] ?? Infinity) <= last; at++) {
      const [from, to] = [other.step[at] ?? 0, other.last[at] ?? 0];
      // A bucket that reaches beyond this row gives as much of itself as lies inside.
      const share = (Math.min(to, last) - Math.max(from, first) + 1) / (to - from + 1);
      const values = (other.count[at] ?? 0) - (other.bad[at] ?? 0);
      sum += Number.isFinite(other.mean[at]) ? (other.mean[at] ?? 0) * values * share : 0;
    }
    const steps = base.count[row] ?? 1;
    found[row] = steps > 0 ? sum / steps : NaN;
  }
  return found;
}

/** For each row of `base` the mean of `other` that was last known there; NaN before the first. */
export function lastKnown(base: ScalarColumns, other: ScalarColumns | undefined): Float64Array {
  const found = new Float64Array(base.step.length).fill(NaN);
  if (!other || other.step.length === 0) return found;
  for (const [row, last] of base.last.entries()) {
    // The first row whose first step lies beyond: the one before is the latest that had begun.
    const at = lowerBound(other.step, last + 0.5) - 1;
    found[row] = other.mean[at] ?? NaN;
  }
  return found;
}

/** Rows of `columns` in which a value was recorded. */
export function finiteRows(columns: ScalarColumns): number[] {
  return Array.from(columns.mean.keys()).filter((row) => Number.isFinite(columns.mean[row]));
}
