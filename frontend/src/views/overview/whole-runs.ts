/** The chosen runs from their first to their last step, coarsely: what small pictures and other axes need. */

import { rank } from "../../app/state";
import { useColumns, type ColumnsState } from "../../wire/client";
import type { Query, RunRow, ScalarColumns } from "../../wire/types";

export interface WholeRun {
  /** Wall time of its first step. */
  readonly origin: number;
  /** Of the scalar that was recorded in most rows. */
  readonly columns: ScalarColumns | undefined;
  readonly scalars: ReadonlyMap<string, ScalarColumns>;
}
export type WholeRuns = ReadonlyMap<string, WholeRun>;

const POINTS = 160;

/** Of the run in focus all scalars named, of the others the loss only. */
export function useWholeRuns(
  runs: readonly RunRow[],
  run: RunRow,
  names: readonly string[],
): { readonly whole: WholeRuns; readonly state: ColumnsState } {
  const state = useColumns(() => {
    const others = runs.filter((each) => each.name !== run.name);
    const ask = (name: string, wanted: readonly string[]): Query => {
      return { what: "scalars", run: name, names: wanted, points: POINTS, rank: rank.value };
    };
    return [ask(run.name, names), ...others.map((each) => ask(each.name, ["loss"]))];
  });
  const whole = new Map<string, WholeRun>();
  for (const answer of state.answers ?? []) {
    if (answer?.what !== "scalars") continue;
    const columns = [...answer.scalars.values()].reduce<ScalarColumns | undefined>(
      (most, each) => (most && most.step.length >= each.step.length ? most : each),
      answer.scalars.get("loss"),
    );
    whole.set(answer.run, { origin: columns?.time[0] ?? 0, columns, scalars: answer.scalars });
  }
  return { whole, state };
}
