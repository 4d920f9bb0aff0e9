import { useMemo } from "preact/hooks";
import { range, rank } from "../../app/state";
import { type Health, healthOf, type Measure, ownValues } from "../../lib/graph-health";
import type { GraphTree } from "../../lib/graph-tree";
import { useColumns } from "../../wire/client";
import type { Answer, RunRow, TableAnswer, TableQuery } from "../../wire/types";
import type { GraphState } from "./graph-state";
import { type Colours, coloursOf } from "./picture";

/** The newest values of a measure in the chosen range, and the colours for them; they follow a run that goes on. */
export function useColours(run: RunRow, state: GraphState, measure: Measure): Colours {
  const columns = useColumns(() => (measure.kind === null ? [] : [tableQuery(run.name, measure.kind)]));
  const table = tableOf(columns.answers?.[0], measure);
  const own = useMemo(() => ownValues(state.tree, measure, table), [state, measure, table]);
  const scene = state.scene.value;
  return useMemo(() => {
    const health = healthOfAll(state.tree, scene.boxes.map(({ item }) => item.id), measure, own);
    return coloursOf(measure, health, own);
  }, [scene, own]);
}

/** The newest statistics of all tensors of a kind, at the end of the chosen range. */
export function tableQuery(run: string, kind: TableQuery["kind"]): TableQuery {
  const step = range.value?.last;
  return { what: "table", run, kind, rank: rank.value, ...(step === undefined ? {} : { step }) };
}

/** While the answer to another question is still there, nothing is shown rather than something wrong. */
function tableOf(answer: Answer | undefined, measure: Measure): TableAnswer | null {
  return answer?.what === "table" && answer.statistics.has(measure.statistic) ? answer : null;
}

function healthOfAll(tree: GraphTree, ids: readonly number[], measure: Measure, own: ReadonlyMap<string, number>): Map<number, Health> {
  return new Map(ids.flatMap((id) => {
    const item = tree.items[id];
    return item ? [[id, healthOf(tree, item, measure, own)] as const] : [];
  }));
}
