import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { rank, setParam, theme } from "../../app/state";
import type { ViewProps } from "../../app/view";
import { divergingRamp, sequentialRamp } from "../../lib/colourmap";
import { findingMarks } from "../../lib/finding-marks";
import { heatColours } from "../../lib/heat";
import { heatScale, type HeatScaleKind } from "../../lib/heat-scale";
import { GROUPED_FROM, rowTree, visibleRows } from "../../lib/row-tree";
import { kindLabel, type TensorStatistic } from "../../lib/tensor-statistics";
import { useColumns, useRun, type ColumnsState } from "../../wire/client";
import type { HeatAnswer, Kind, RunDetails, RunRow } from "../../wire/types";
import { layerChoices, limitsOf, statisticOfChoice } from "./choices";
import { LayerControls } from "./controls";
import { LayerDetail } from "./detail";
import { NoTensors } from "./empty";
import { HeatMap } from "./heat-map";
import { namesWidth, type HeatScene } from "./heat-picture";
import { groupRule, heatAnswer, heatTable } from "./heat-table";
import { firstKind, presentKinds } from "./kinds";
import { Legend, scaleName } from "./legend";
import { boundsOf, queryRange, shownWindow, stepMoves } from "./steps";
import "./layers.css";

/** Layers × steps as a heat map of any statistic; a click on a row opens what there is of one tensor. */
export function LayersView({ run }: ViewProps): JSX.Element {
  const details = useRun(run?.name ?? null);
  if (!run) return <p class="hint">Select a run from the list.</p>;
  return <Layers key={run.name} run={run} details={details} />;
}

interface LayersProps {
  readonly run: RunRow;
  readonly details: RunDetails | null;
}

const MOST_COLUMNS = 400;
const LEAST_COLUMNS = 150;
/** As many travel with each refresh; of very many tensors fewer steps have to do. */
const MOST_CELLS = 300000;

function columnsFor(details: RunDetails | null, kind: Kind): number {
  const rows = details?.series.filter((each) => each.kind === kind).length ?? 0;
  return Math.round(Math.max(LEAST_COLUMNS, Math.min(MOST_COLUMNS, MOST_CELLS / Math.max(1, rows))));
}

function Layers({ run, details }: LayersProps): JSX.Element {
  const choices = layerChoices();
  const present = presentKinds(details);
  const kind = choices.kind ?? firstKind(present);
  const statistic = statisticOfChoice(choices, kind);
  const isKnown = choices.kind !== null || details !== null;
  const common = {
    what: "heat",
    run: run.name,
    kind,
    rank: rank.value,
    columns: columnsFor(details, kind),
    ...queryRange(),
  } as const;
  const { answers, error, loading } = useColumns(() =>
    isKnown
      ? [
          { ...common, statistic: statistic.name },
          { ...common, statistic: "nonfinite" },
        ]
      : [],
  );
  const toggled = useSignal<ReadonlySet<string>>(new Set());
  const openDepth = useSignal<number | null>(null);
  const step = useSignal<number | null>(null);
  useLayoutEffect(() => {
    toggled.value = new Set();
    openDepth.value = null;
  }, [kind]);

  const failed = answers?.find((each) => each?.what === "failed");
  const picture = usePicture(answers, kind, statistic);
  const heat = picture?.heat ?? null;
  const scene = useScene(picture, (picture?.statistic ?? statistic).scale, run);
  const rows = scene && visibleRows(scene.tree, toggled.value, openDepth.value ?? scene.tree.openDepth);
  const bounds = boundsOf(run);
  const window = heat && shownWindow(heat.first, heat.last, bounds);
  const openAll = (open: boolean): void => {
    toggled.value = new Set();
    openDepth.value = open ? Infinity : 0;
  };
  const findings = details?.findings;
  const marks = useMemo(
    () => findingMarks(findings ?? [], scene?.table.names ?? []),
    [findings, scene?.table.names.join("\n")],
  );
  const words = useMemo(() => new Map<string, Uint32Array>(), [scene, theme.value]);
  const selected = choices.tensor;
  const select = (name: string): void => setParam("layers.tensor", name === selected ? null : name);
  const toggle = (key: string): void => {
    const next = new Set(toggled.peek());
    if (!next.delete(key)) next.add(key);
    toggled.value = next;
  };
  const drawn = useMemo<HeatScene | null>(
    () =>
      scene &&
      rows &&
      window &&
      picture && {
        ...scene,
        rows,
        names: namesWidth(rows),
        window,
        selected,
        words,
        marks,
        rule: groupRule(picture.statistic.name),
      },
    [scene, toggled.value, openDepth.value, window?.first, window?.last, selected, words, marks],
  );
  const hasRows = heat !== null && heat.names.length > 0 && heat.first.length > 0;
  return (
    <div class="tensors">
      <LayerControls
        choices={choices}
        kind={kind}
        statistic={statistic}
        present={present}
        grouped={scene?.grouped ?? null}
        onOpenAll={openAll}
      />
      {(error ?? failed?.error) && (
        <p class="bad" role="alert">
          {error ?? failed?.error}
        </p>
      )}
      {!heat && loading && <p class="hint">Reading the run …</p>}
      {heat && !hasRows && <NoTensors run={run} kind={kind} present={present} />}
      {hasRows && drawn && drawn.table.names.length === 0 && <p class="hint">No name contains “{choices.search}”.</p>}
      {hasRows && picture && drawn && bounds && drawn.table.names.length > 0 && (
        <div class={selected ? "layers-split" : ""}>
          <section class="card heat">
            <Legend scale={drawn.scale} colours={drawn.colours} title={legendTitle(picture, drawn)} />
            <HeatMap
              scene={drawn}
              statistic={picture.statistic}
              moves={stepMoves(drawn.window, bounds)}
              title={`${valuesOf(picture)}, ${drawn.rows.length} rows`}
              exportName={`${run.name}-${picture.kind}-${picture.statistic.name}`}
              onSelect={(row) => select(row.name)}
              onToggle={(row) => toggle(row.key)}
              step={step}
            />
          </section>
          {selected && <LayerDetail run={run} kind={kind} name={selected} step={step} />}
        </div>
      )}
    </div>
  );
}

/** The answers of a kind and a statistic, which may not be the chosen ones yet. */
interface Picture {
  readonly kind: Kind;
  readonly statistic: TensorStatistic;
  readonly heat: HeatAnswer;
  readonly bad: HeatAnswer | null;
}

/** The newest picture there is: the one before, under its own name, stays until that of another choice has come. */
function usePicture(answers: ColumnsState["answers"], kind: Kind, statistic: TensorStatistic): Picture | null {
  const seen = useRef<Picture | null>(null);
  const heat = heatAnswer(answers?.[0]);
  if (heat) seen.current = { kind, statistic, heat, bad: heatAnswer(answers?.[1]) };
  else if (answers?.[0]) seen.current = null;
  return seen.current;
}

function valuesOf({ kind, statistic }: Picture): string {
  return `${statistic.label} of ${kindLabel(kind).toLowerCase()}`;
}

function legendTitle(picture: Picture, { scale }: HeatScene): string {
  const what = picture.statistic.name === "ratio" ? picture.statistic.label : valuesOf(picture);
  return scale.kind === "change" ? `${what} ÷ own median` : `${what}, ${scaleName(scale)}`;
}

type Scene = Pick<HeatScene, "table" | "scale" | "colours"> & {
  readonly tree: ReturnType<typeof rowTree>;
  readonly grouped: boolean;
};

/** What is drawn, without what scrolling and opening groups change. */
function useScene(picture: Picture | null, usual: HeatScaleKind, run: RunRow): Scene | null {
  const [heat, bad] = [picture?.heat ?? null, picture?.bad ?? null];
  const { search, colouring, ...choices } = layerChoices();
  const grouped = choices.grouped ?? (heat !== null && heat.names.length >= GROUPED_FROM);
  const table = useMemo(
    () => heat && heatTable(heat, bad, search, colouring === "own"),
    [heat, bad, search, colouring],
  );
  const tree = useMemo(() => table && rowTree(table.names, grouped), [table?.names.join("\n"), grouped, run.name]);
  const kind: HeatScaleKind = colouring !== "own" ? usual : usual === "signed" ? "signed" : "change";
  const scale = useMemo(() => table && heatScale(kind, table.drawn, limitsOf(colouring)), [table, kind, colouring]);
  return useMemo(() => {
    if (!table || !tree || !scale) return null;
    const diverges = scale.kind === "signed" || scale.kind === "change";
    const ramp = diverges ? divergingRamp(theme.value) : sequentialRamp(theme.value);
    return { table, tree, grouped, scale, colours: heatColours(ramp, theme.value) };
  }, [table, tree, grouped, scale, theme.value]);
}
