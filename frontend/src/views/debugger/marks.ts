/** What is known of layers beside where the training is: hits of watchpoints, and findings of the run. */

import { useMemo } from "preact/hooks";
import { runs } from "../../app/state";
import { findingMarks, type FindingMark } from "../../lib/finding-marks";
import { chainOf, moduleOfTensor, type ModuleTree } from "../../lib/debugger-modules";
import { useRun } from "../../wire/client";
import type { DebuggerEntry, Hit } from "../../wire/debugger-types";
import type { RunRow } from "../../wire/types";
import { hits } from "./hits";

export interface ModuleMarks {
  /** Of the layer and of those inside. */
  readonly hits: ReadonlyMap<string, number>;
  readonly findings: ReadonlyMap<string, FindingMark>;
}

/** The run that the training records, if this TensorBoard knows it. */
export function runOf({ session }: DebuggerEntry): RunRow | null {
  return runs.value?.find((run) => run.name === session.run) ?? null;
}

export function useModuleMarks(shown: DebuggerEntry, tree: ModuleTree): ModuleMarks {
  const details = useRun(runOf(shown)?.name ?? null);
  const counted = useMemo(() => hitCounts(hits.value, tree), [hits.value, tree]);
  const findings = useMemo(
    () => findingMarks(details?.findings ?? [], [...tree.byName.keys()]),
    [details?.findings, tree],
  );
  return { hits: counted, findings };
}

function hitCounts(all: readonly Hit[], tree: ModuleTree): Map<string, number> {
  const counts = new Map<string, number>();
  for (const hit of all) {
    for (const name of chainOf(tree, moduleOfTensor(tree, hit.tensor))) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
