/** Findings as they are read: causes first, each with what it explains. */

import type { Finding, Severity } from "../wire/types";

const ORDER: readonly Severity[] = ["error", "warning", "info"];

export interface FindingTree {
  readonly causes: readonly Finding[];
  /** Worth knowing, no fault. */
  readonly notes: readonly Finding[];
  readonly explainedBy: (cause: Finding) => readonly Finding[];
}

export function findingTree(findings: readonly Finding[]): FindingTree {
  const rules = new Set(findings.map((each) => each.rule));
  const explainedBy = (cause: Finding): Finding[] =>
    findings.filter((each) => each.cause === cause.rule).sort((a, b) => a.first_step - b.first_step);
  const worst = (finding: Finding): number =>
    Math.min(rank(finding), ...explainedBy(finding).map(rank));
  const roots = findings
    .filter((each) => each.cause === null || !rules.has(each.cause))
    .sort((a, b) => worst(a) - worst(b) || a.first_step - b.first_step);
  const isNote = (finding: Finding): boolean => worst(finding) === rank("info");
  return { causes: roots.filter((each) => !isNote(each)), notes: roots.filter(isNote), explainedBy };
}

function rank(of: Finding | Severity): number {
  return ORDER.indexOf(typeof of === "string" ? of : of.severity);
}
