/** Findings on the rows of the heat map. */

import type { Finding, Severity } from "../wire/types";

export interface FindingMark {
  readonly step: number;
  readonly severity: Severity;
  readonly rules: readonly string[];
}

const ORDER: readonly Severity[] = ["error", "warning", "info"];

/** For each tensor that a finding names, itself or as a part of a layer: the worst, and since when. */
export function findingMarks(findings: readonly Finding[], names: readonly string[]): ReadonlyMap<string, FindingMark> {
  const marks = new Map<string, FindingMark>();
  for (const finding of findings) {
    if (finding.severity === "info") continue;
    for (const name of names) {
      if (!finding.where.some((place) => isPartOf(name, place))) continue;
      const mark = joinedMarks([marks.get(name), markOf(finding)]);
      if (mark) marks.set(name, mark);
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

/** The worst of them, since the first of them; undefined when there is none. */
export function joinedMarks(marks: readonly (FindingMark | undefined)[]): FindingMark | undefined {
  const [first, ...more] = marks.filter((mark) => mark !== undefined);
  return first && more.reduce(joined, first);
}

function joined(a: FindingMark, b: FindingMark): FindingMark {
  return {
    step: Math.min(a.step, b.step),
    severity: ORDER.indexOf(b.severity) < ORDER.indexOf(a.severity) ? b.severity : a.severity,
    rules: [...new Set([...a.rules, ...b.rules])],
  };
}

function markOf({ first_step: step, severity, rule }: Finding): FindingMark {
  return { step, severity, rules: [rule] };
}
