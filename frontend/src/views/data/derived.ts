/** Scalars made from others, row by row. */

import { phaseSplit, waitShares } from "../../lib/phases";
import { perStep } from "../../lib/phases-join";
import type { ScalarColumns } from "../../wire/types";
import type { Scalars } from "../resources/run-scalars";

/** The share of each step that went by waiting for data. */
export function waitColumns(scalars: Scalars): ScalarColumns | undefined {
  const split = phaseSplit(scalars);
  return split && scalars.has("time/data") ? withMeans(split.whole, waitShares(split)) : undefined;
}

/** Samples per second while the training steps; pauses between steps do not count. */
export function rateColumns(scalars: Scalars): ScalarColumns | undefined {
  const [time, batch] = [scalars.get("time/step"), scalars.get("batch_size")];
  if (!time || !batch) return undefined;
  const sizes = perStep(time, batch);
  return withMeans(
    time,
    time.mean.map((seconds, row) => (seconds > 0 ? (sizes[row] ?? NaN) / seconds : NaN)),
  );
}

/** The same rows with other values; nothing is known of what lies between. */
function withMeans(rows: ScalarColumns, mean: Float64Array): ScalarColumns {
  return { ...rows, mean, min: mean, max: mean, end: mean, bad: new Float64Array(mean.length) };
}
