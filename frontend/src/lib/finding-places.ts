/** Where a finding leads to: the tensors that show what it speaks of. */

import type { Kind, RunDetails, SeriesName } from "../wire/types";
import { isPartOf } from "./finding-marks";

/** What of the page Layers to show, as its parts of the link. */
export interface LayerPlace {
  readonly kind: Kind;
  /** null: the usual one. */
  readonly statistic: string | null;
  readonly search: string;
  /** To be opened; null when there are several. */
  readonly tensor: string | null;
}

type Look = readonly [slugs: RegExp, kind: Kind, statistic: string | null];

/** The kind of tensor, and its statistic, in which one sees what a family of rules finds; the first that fits. */
const LOOKS: readonly Look[] = [
  [/^nonfinite-(activation|loss)$/, "activation", "nonfinite"],
  [/^nonfinite-gradient$/, "gradient", "nonfinite"],
  [/^nonfinite-weight$/, "weight", "nonfinite"],
  [/^nonfinite-input$/, "tensor", "nonfinite"],
  [/^dead-/, "activation", "inactive_units"],
  [/^constant-output$/, "activation", "std"],
  [/^saturated-|^activation-|-mode-/, "activation", "rms"],
  [/^update-ratio-|^learning-rate-|^unchanged-|^frozen-|^not-optimized$/, "update", "ratio"],
  [/^weight-|^init-|^replica-/, "weight", "rms"],
  [/^input-|^labels-|^loss-/, "tensor", null],
  [/gradient|^grad-/, "gradient", null],
];
const KINDS: readonly Kind[] = ["gradient", "activation", "update", "weight", "tensor"];

/** Null when there is nothing to see of the place, such as of a line of code. */
export function layerPlace(rule: string, place: string, details: Pick<RunDetails, "series">): LayerPlace | null {
  const [, wanted, statistic] = LOOKS.find(([slugs]) => slugs.test(rule)) ?? [null, "gradient" as const, null];
  for (const kind of [wanted, ...KINDS]) {
    const names = namesOf(details.series, kind);
    const parts = names.filter((name) => isPartOf(name, place));
    const [first] = parts;
    if (first === undefined) continue;
    return {
      kind,
      statistic: kind === wanted ? statistic : null,
      search: searchOf(place, names, parts.length),
      tensor: parts.length === 1 ? first : null,
    };
  }
  return null;
}

function namesOf(series: readonly SeriesName[], kind: Kind): string[] {
  return series.filter((each) => each.kind === kind).map((each) => each.name);
}

/** The name alone if that finds its parts and no others, else in quotes. */
function searchOf(place: string, names: readonly string[], parts: number): string {
  const low = place.toLowerCase();
  const found = names.filter((name) => name.toLowerCase().includes(low)).length;
  return found === parts && !/[\s"]/.test(place) ? place : `"${place}"`;
}
