/** Findings as they are read: causes first, each with what it explains. The server sends sound trees, in order. */

import type { Finding } from "../wire/types";

export interface FindingTree {
  readonly causes: readonly Finding[];
  /** Worth knowing, no fault. */
  readonly notes: readonly Finding[];
  readonly explainedBy: (cause: Finding) => readonly Finding[];
}

export function findingTree(findings: readonly Finding[]): FindingTree {
  const byRule = new Map(findings.map((each) => [each.rule, each]));
  const explainedBy = (cause: Finding): Finding[] => cause.consequences.flatMap((rule) => byRule.get(rule) ?? []);
  const roots = findings.filter((each) => each.cause === null);
  const isNote = (finding: Finding): boolean => finding.severity === "info";
  return { causes: roots.filter((each) => !isNote(each)), notes: roots.filter(isNote), explainedBy };
}
