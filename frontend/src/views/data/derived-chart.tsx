import type { JSX } from "preact";
import { axis, colourOf, dashOf, range, rank, smoothing } from "../../app/state";
import { LineChart, type LineSeries } from "../../charts/line-chart";
import { curveOf } from "../../lib/curves";
import { useColumns } from "../../wire/client";
import type { RunRow, ScalarColumns, ScalarsQuery } from "../../wire/types";
import { axisProps, originOf, type Scalars, scalarsOf } from "../resources/run-scalars";

export interface DerivedChartProps {
  readonly title: string;
  /** In this order; the first is in focus. */
  readonly runs: readonly RunRow[];
  /** What it is made of. */
  readonly names: readonly string[];
  readonly make: (scalars: Scalars) => ScalarColumns | undefined;
  readonly format: (value: number) => string;
  readonly exportName: string;
  readonly empty: string;
}

const POINTS = 400;
const POINTS_OF_ALL = 120;
const HEIGHT = 190;

/** A curve made from several scalars, of all runs that are drawn. */
export function DerivedChart({ title, runs, names, make, format, exportName, empty }: DerivedChartProps): JSX.Element {
  const part = range.value ? { first: range.value.first, last: range.value.last } : {};
  const { answers, error } = useColumns(() =>
    runs.flatMap((run): ScalarsQuery[] => {
      const asked = { what: "scalars", run: run.name, rank: rank.value } as const;
      return [
        { ...asked, names, points: POINTS, ...part },
        { ...asked, names: ["time/step"], points: POINTS_OF_ALL },
      ];
    }),
  );
  const wholes = runs.map((_, place) => scalarsOf(answers?.[place * 2 + 1]).get("time/step"));
  const series = runs.flatMap((run, place): LineSeries[] => {
    const columns = make(scalarsOf(answers?.[place * 2]));
    if (!columns || columns.step.length === 0) return [];
    return [
      {
        label: run.name,
        colour: colourOf(run.name),
        dash: dashOf(run.name),
        ...curveOf(columns, axis.value, smoothing.value, originOf(wholes[place])),
      },
    ];
  });
  return (
    <div class="card page-card">
      <LineChart
        {...axisProps(wholes[0])}
        title={title}
        series={series}
        headline={runs[0]?.name ?? null}
        formatY={format}
        syncKey="steps"
        exportName={exportName}
        height={HEIGHT}
        empty={error ?? (answers === null ? "Loading …" : empty)}
      />
    </div>
  );
}
