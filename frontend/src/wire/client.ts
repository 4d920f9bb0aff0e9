/** Hooks that bring the server's data into components and keep it fresh. */

import { computed, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { paused } from "../app/state";
import { askColumns } from "./batch";
import { answersTo, ColumnsWatch, type ColumnsState } from "./columns-watch";
import { parseGraph, parseRunDetails } from "./json";
import { connection, hidden, onRunChange } from "./live";
import { SharedJson } from "./shared-json";
import type { GraphData, Query, RunDetails } from "./types";

export type { ColumnsState } from "./columns-watch";

const resting = computed(() => paused.value || hidden.value);
const AROUND = { ask: askColumns, resting, now: () => performance.now() };

/**
 * The answers to `queries()`, fetched again when the queries change or one of their runs has new data, at most ten
 * times a second and not while the page is paused or hidden. An empty list asks for nothing.
 */
export function useColumns(queries: () => readonly Query[]): ColumnsState {
  const wanted = queries();
  const wording = JSON.stringify(wanted);
  const watch = useMemo(() => new ColumnsWatch(AROUND), []);
  useEffect(() => watch.want(wanted), [wording]);
  useEffect(() => {
    const stopListening = onRunChange((name) => watch.changed(name));
    const stopResting = resting.subscribe((rests) => rests || watch.wake());
    const stopConnection = connection.subscribe((now) => now === "open" && watch.wake());
    return () => {
      stopListening();
      stopResting();
      stopConnection();
      watch.stop();
    };
  }, []);
  const state = watch.state.value;
  return useMemo(() => answersTo(wanted, state), [state, wording]);
}

const details = new SharedJson<RunDetails>("run", parseRunDetails, true);
const graphs = new SharedJson<GraphData>("graph", parseGraph, false);
onRunChange((name) => {
  // A paused picture keeps its words, too.
  if (!resting.peek()) details.changed(name);
  graphs.changed(name);
});

/** Everything known of a run; null until it has come. */
export function useRun(name: string | null): RunDetails | null {
  return useShared(details, name);
}

/** The module graph of a run; null until it has come, or when there is none. */
export function useGraph(name: string | null): GraphData | null {
  return useShared(graphs, name);
}

function useShared<Value>(shared: SharedJson<Value>, name: string | null): Value | null {
  const [joined, setJoined] = useState<{ name: string; value: ReadonlySignal<Value | null> } | null>(null);
  useEffect(() => {
    if (name === null) return;
    setJoined({ name, value: shared.join(name) });
    return () => shared.leave(name);
  }, [name]);
  return joined !== null && joined.name === name ? joined.value.value : null;
}
