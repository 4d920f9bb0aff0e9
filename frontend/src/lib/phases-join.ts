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

/** So many times the usual distance between rows is a hole in the recording, and nothing is drawn across it. */
const HOLE = 4;

/** Rows before which steps are missing, of a scalar that is recorded in every step. */
export function holesIn(columns: ScalarColumns): ReadonlySet<number> {
  const widths = columns.step.map((first, row) => (columns.last[row] ?? first) - first + 1).sort();
  const usual = widths[Math.floor(widths.length / 2)] ?? 1;
  const found = new Set<number>();
  for (let row = 1; row < columns.step.length; row++) {
    const missing = (columns.step[row] ?? 0) - (columns.last[row - 1] ?? 0) - 1;
    if (missing >= HOLE * usual) found.add(row);
  }
  return found;
}
