/** From the columns of a scalar to a curve on the chosen axis. */

import type { ScalarColumns } from "../wire/types";
import type { Extent } from "./extent";
import type { Axis, StepRange } from "./link-state";
import { interpolate } from "./nearest";
import { smoothed } from "./smoothing";

export interface Curve {
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  readonly bad: Float64Array;
  readonly raw?: Float64Array;
}

/** `origin` is the wall time that counts as zero on the axis of time. */
export function curveOf(columns: ScalarColumns, axis: Axis, smoothing: number, origin: number): Curve {
  const kept = recorded(columns);
  const part = (values: Float64Array): Float64Array =>
    kept.length === values.length ? values : Float64Array.from(kept, (row) => values[row] ?? NaN);
  const mean = part(columns.mean);
  const curve = {
    x: part(axisValues(columns, axis, origin)),
    low: part(columns.min),
    high: part(columns.max),
    bad: part(columns.bad),
  };
  return smoothing > 0 ? { ...curve, y: smoothed(mean, smoothing), raw: mean } : { ...curve, y: mean };
}

/** Rows in which something was recorded: what is rarely recorded is joined over the rows between. */
function recorded({ mean, bad }: ScalarColumns): number[] {
  const rows: number[] = [];
  for (let row = 0; row < mean.length; row++) {
    if (Number.isFinite(mean[row]) || (bad[row] ?? 0) > 0) rows.push(row);
  }
  return rows;
}

function axisValues(columns: ScalarColumns, axis: Axis, origin: number): Float64Array {
  if (axis === "time") return columns.time.map((time) => time - origin);
  // Runs that did not record batch sizes have no samples: there the step has to do.
  if (axis === "samples" && columns.samples.some(Number.isFinite)) return columns.samples;
  return columns.last;
}

/** The part of the axis that a range of steps takes, by the curve of a run over all its steps. */
export function zoomOf(
  range: StepRange | null,
  all: ScalarColumns | undefined,
  axis: Axis,
  origin: number,
): Extent | null {
  if (range === null) return null;
  if (axis === "step" || !all) return [range.first, Math.max(range.last, range.first + 1)];
  const xs = axisValues(all, axis, origin);
  const [first, last] = [interpolate(all.last, xs, range.first), interpolate(all.last, xs, range.last)];
  return last > first ? [first, last] : null;
}

/** The steps under a part of the axis: the way back. */
export function rangeOf(zoom: Extent, all: ScalarColumns | undefined, axis: Axis, origin: number): StepRange {
  const place = (x: number): number => {
    return axis === "step" || !all ? x : interpolate(axisValues(all, axis, origin), all.last, x);
  };
  const first = Math.max(0, Math.round(place(zoom[0])));
  return { first, last: Math.max(first + 1, Math.round(place(zoom[1]))) };
}
