import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { axis, colourOf, dashOf, focus, logY, range, rank, smoothing } from "../../app/state";
import { useInSight } from "../../charts/in-sight";
import { LineChart, type LineSeries, type Marker } from "../../charts/line-chart";
import { curveOf, rangeOf, zoomOf } from "../../lib/curves";
import { formatElapsed } from "../../lib/elapsed";
import { formatShort } from "../../lib/format";
import { formatterOf, isBytes, titleOf } from "../../lib/scalars";
import { useColumns, type ColumnsState } from "../../wire/client";
import type { Query, RunRow, ScalarColumns } from "../../wire/types";
import type { WholeRuns } from "./whole-runs";

export interface ScalarChartProps {
  readonly name: string;
  readonly runs: readonly RunRow[];
  readonly whole: WholeRuns;
  readonly height: number;
  /** About how many points across. */
  readonly points: number;
  readonly markers?: readonly Marker[];
  readonly legend?: boolean;
}

const AXIS_WORDS = { step: "step", time: "after", samples: "samples" } as const;

/** One scalar of all chosen runs; asks for its data only while it is in sight. */
export function ScalarChart(props: ScalarChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const inSight = useInSight(place);
  const seen = useRef<ColumnsState | null>(null);
  const found = useColumns(() => (inSight ? queriesOf(props) : []));
  // Out of sight nothing is asked for, but what was drawn stays.
  if (inSight && found.answers !== null && found.answers.length > 0) seen.current = found;
  const state = seen.current ?? found;
  return (
    <div ref={place} class="card chart-card" id={`chart-${props.name}`}>
      <Drawn {...props} state={state} error={found.error} />
    </div>
  );
}

function queriesOf({ name, runs, points }: ScalarChartProps): Query[] {
  const part = range.value ? { first: range.value.first, last: range.value.last } : {};
  return runs.map((run) => ({ what: "scalars", run: run.name, names: [name], points, rank: rank.value, ...part }));
}

type DrawnProps = ScalarChartProps & { readonly state: ColumnsState; readonly error: string | null };

function Drawn({ name, runs, whole, height, markers, legend, state, error }: DrawnProps): JSX.Element {
  const focused = whole.get(focus.value ?? "");
  const kind = axis.value;
  return (
    <LineChart
      title={titleOf(name)}
      series={seriesOf(name, state, whole)}
      headline={focus.value}
      xLabel={AXIS_WORDS[kind]}
      xKind={kind === "time" ? "elapsed" : "number"}
      formatX={kind === "time" ? formatElapsed : formatShort}
      formatY={formatterOf(name)}
      yKind={isBytes(name) ? "bytes" : "number"}
      logY={logY.value}
      zoom={zoomOf(range.value, focused?.columns, kind, focused?.origin ?? 0)}
      onZoom={(zoom) => (range.value = zoom && rangeOf(zoom, focused?.columns, kind, focused?.origin ?? 0))}
      markers={markers ?? []}
      syncKey="steps"
      exportName={titleOf(name)}
      height={height}
      legend={legend === true && runs.some((run) => run.name !== focus.value)}
      empty={error ?? (isLoaded(state) ? emptyWords(name, state) : "")}
    />
  );
}

/** A chart that was never in sight has asked for nothing, and knows nothing of the runs. */
function isLoaded({ answers, loading }: ColumnsState): boolean {
  return !loading && answers !== null && answers.length > 0;
}

function emptyWords(name: string, state: ColumnsState): string {
  const failed = state.answers?.find((answer) => answer?.what === "failed");
  if (failed?.what === "failed") return failed.error;
  return `The selected runs have no ${titleOf(name).slice(0, 100)} in these steps.`;
}

/** The run in focus first. */
function seriesOf(name: string, { answers }: ColumnsState, whole: WholeRuns): LineSeries[] {
  const found = (answers ?? []).flatMap((answer): (LineSeries & { focused: boolean })[] => {
    const columns: ScalarColumns | undefined = answer?.what === "scalars" ? answer.scalars.get(name) : undefined;
    if (answer?.what !== "scalars" || !columns) return [];
    const origin = whole.get(answer.run)?.origin ?? columns.time[0] ?? 0;
    const curve = curveOf(columns, axis.value, smoothing.value, origin);
    const look = { label: answer.run, colour: colourOf(answer.run), dash: dashOf(answer.run) };
    const source = { run: answer.run, scalar: name, last: columns.last.at(-1) ?? NaN };
    return [{ ...curve, ...look, source, focused: answer.run === focus.value }];
  });
  return found.sort((a, b) => Number(b.focused) - Number(a.focused));
}
