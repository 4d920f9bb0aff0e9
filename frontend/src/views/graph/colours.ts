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
  const kinds = [measure.kind, measure.over].flatMap((kind) => kind ?? []);
  const { answers, loading } = useColumns(() => kinds.map((kind) => tableQuery(run.name, kind)));
  const table = tableOf(answers?.[0]);
  const divisor = tableOf(answers?.[1]);
  const isLoading = kinds.length > 0 && loading;
  const own = useMemo(() => ownValues(state.tree, measure, table, divisor), [state, measure, table, divisor]);
  const scene = state.scene.value;
  return useMemo(() => {
    const health = healthOfAll(
      state.tree,
      scene.boxes.map(({ item }) => item.id),
      measure,
      own,
    );
    return coloursOf(measure, health, own, isLoading);
  }, [scene, own, isLoading]);
}

export function tableOf(answer: Answer | undefined): TableAnswer | null {
  return answer?.what === "table" ? answer : null;
}

/** The newest statistics of all tensors of a kind, at the end of the chosen range. */
export function tableQuery(run: string, kind: TableQuery["kind"]): TableQuery {
  const step = range.value?.last;
  return { what: "table", run, kind, rank: rank.value, ...(step === undefined ? {} : { step }) };
}

function healthOfAll(
  tree: GraphTree,
  ids: readonly number[],
  measure: Measure,
  own: ReadonlyMap<string, number>,
): Map<number, Health> {
  return new Map(
    ids.flatMap((id) => {
      const item = tree.items[id];
      return item ? [[id, healthOf(tree, item, measure, own)] as const] : [];
    }),
  );
}
