/** Which kinds of tensors a run has samples of. */

import { KINDS } from "../../lib/tensor-statistics";
import type { Kind, RunDetails } from "../../wire/types";

/** null while nobody knows. */
export function presentKinds(details: RunDetails | null): ReadonlySet<Kind> | null {
  return details && new Set(details.series.map((each) => each.kind));
}

/** Gradients say most; a run that has none is shown by what it has. */
export function firstKind(present: ReadonlySet<Kind> | null): Kind {
  const order: readonly Kind[] = ["gradient", ...KINDS.map((each) => each.kind)];
  return order.find((kind) => present?.has(kind)) ?? "gradient";
}
