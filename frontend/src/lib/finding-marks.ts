/** Findings on the rows of the heat map. */

import type { Finding, Severity } from "../wire/types";

export interface FindingMark {
  readonly step: number;
  readonly severity: Severity;
  readonly rules: readonly string[];
}

const ORDER: readonly Severity[] = ["error", "warning", "info"];

/** For each tensor that a finding names, itself or as a part of a layer: the worst, and since when. */
export function findingMarks(
  findings: readonly Finding[],
  names: readonly string[],
): ReadonlyMap<string, FindingMark> {
  const marks = new Map<string, FindingMark>();
  for (const finding of findings) {
    if (finding.severity === "info") continue;
    for (const name of names) {
      if (finding.where.some((place) => isPartOf(name, place))) marks.set(name, joined(marks.get(name), finding));
    }
  }
  return marks;
}

/** `encoder.2.weight` and `encoder.2[0]` are parts of `encoder.2`. */
export function isPartOf(name: string, place: string): boolean {
  if (place === "" || !name.startsWith(place)) return false;
  const next = name[place.length];
  return next === undefined || next === "." || next === "[";
}

function joined(known: FindingMark | undefined, finding: Finding): FindingMark {
  if (!known) return { step: finding.first_step, severity: finding.severity, rules: [finding.rule] };
  const isWorse = ORDER.indexOf(finding.severity) < ORDER.indexOf(known.severity);
  return {
    step: Math.min(known.step, finding.first_step),
    severity: isWorse ? finding.severity : known.severity,
    rules: [...known.rules, finding.rule],
  };
}
