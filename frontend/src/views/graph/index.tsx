import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { params, setParam } from "../../app/state";
import type { ViewProps } from "../../app/view";
import { measureOf } from "../../lib/graph-health";
import { useGraph, useRun } from "../../wire/client";
import type { GraphData, RunRow } from "../../wire/types";
import { useColours } from "./colours";
import { EmptyGraph } from "./empty";
import { GraphState } from "./graph-state";
import { Panel } from "./panel";
import { Stage } from "./stage";
import { graphRows } from "./table";
import { Toolbar } from "./toolbar";
import { TreeList } from "./tree-list";
import "./graph.css";

export function GraphView({ run }: ViewProps): JSX.Element {
  const details = useRun(run?.name ?? null);
  const graph = useGraph(details?.has_graph ? details.name : null);
  if (!run) return <p class="hint">Select a run from the list.</p>;
  if (!details) return <p class="hint">Reading the run …</p>;
  if (!details.has_graph) return <EmptyGraph details={details} />;
  if (!graph) return <p class="hint">Reading the graph …</p>;
  if (graph.nodes.length === 0) return <EmptyGraph details={details} />;
  return <LoadedGraph key={run.name} run={run} graph={graph} />;
}

interface LoadedGraphProps {
  readonly run: RunRow;
  readonly graph: GraphData;
}

function LoadedGraph({ run, graph }: LoadedGraphProps): JSX.Element {
  const state = useMemo(() => new GraphState(graph), [graph]);
  const measure = measureOf(params.value["graph.colour"]);
  const colours = useColours(run, state, measure);
  const isList = params.value["graph.view"] === "list";
  useSelectionLink(state);
  const csv = useMemo(() => () => graphRows(state.tree, colours), [state, colours]);
  const name = `${run.name} graph`;
  return (
    <section class="graph-page">
      <Toolbar state={state} colours={colours} isList={isList} />
      <div class="graph-body">
        {isList ? (
          <TreeList state={state} colours={colours} exportName={name} csv={csv} />
        ) : (
          <Stage state={state} colours={colours} exportName={name} csv={csv} />
        )}
        <Panel run={run} state={state} colours={colours} />
      </div>
    </section>
  );
}

/** The selected module is part of the link. */
function useSelectionLink(state: GraphState): void {
  useEffect(() => {
    const name = params.peek()["graph.module"];
    const id = name === undefined ? undefined : state.tree.byName.get(name);
    if (id !== undefined) state.show(id);
    return state.selected.subscribe((selected) => {
      const module = state.item(selected)?.module;
      const next = module && module.name.length < 300 ? module.name : null;
      if ((params.peek()["graph.module"] ?? null) !== next) setParam("graph.module", next);
    });
  }, [state]);
}
