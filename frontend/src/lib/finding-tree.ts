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
  const parents = new Map(findings.map((each) => [each.rule, each.cause]));
  const causeOf = (finding: Finding): string | null => (isRoot(finding.rule, parents) ? null : finding.cause);
  const explainedBy = (cause: Finding): Finding[] =>
    findings.filter((each) => causeOf(each) === cause.rule).sort((a, b) => a.first_step - b.first_step);
  const worst = (finding: Finding): number => Math.min(rank(finding), ...explainedBy(finding).map(rank));
  const roots = findings
    .filter((each) => causeOf(each) === null)
    .sort((a, b) => worst(a) - worst(b) || a.first_step - b.first_step);
  const isNote = (finding: Finding): boolean => worst(finding) === rank("info");
  return { causes: roots.filter((each) => !isNote(each)), notes: roots.filter(isNote), explainedBy };
}

/** Without a cause that is there; and a broken file may say that findings are causes of each other. */
function isRoot(rule: string, parents: ReadonlyMap<string, string | null>): boolean {
  const seen = new Set<string>();
  let parent = parents.get(rule) ?? null;
  if (parent === null || !parents.has(parent)) return true;
  for (; parent !== null && !seen.has(parent); parent = parents.get(parent) ?? null) {
    if (parent === rule) return true;
    seen.add(parent);
  }
  return false;
}

function rank(of: Finding | Severity): number {
  return ORDER.indexOf(typeof of === "string" ? of : of.severity);
}
