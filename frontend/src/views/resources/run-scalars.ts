import { axis, range, rank } from "../../app/state";
import { rangeOf, zoomOf } from "../../lib/curves";
import { formatElapsed } from "../../lib/elapsed";
import type { Extent } from "../../lib/extent";
import { formatShort } from "../../lib/format";
import { useColumns } from "../../wire/client";
import type { Answer, RunRow, ScalarColumns, ScalarsQuery } from "../../wire/types";

export type Scalars = ReadonlyMap<string, ScalarColumns>;

export interface RunScalars {
  /** In the chosen range. */
  readonly scalars: Scalars;
  /** From the first step to the last, coarsely: to go between steps and other axes. */
  readonly all: ScalarColumns | undefined;
  readonly error: string | null;
  /** Whether an answer has come. */
  readonly isThere: boolean;
}

const NOTHING: Scalars = new Map();
const POINTS_OF_ALL = 160;

/** Some scalars of a run over the chosen range, of the chosen rank. */
export function useRunScalars(run: RunRow, names: readonly string[], points: number): RunScalars {
  const part = range.value ? { first: range.value.first, last: range.value.last } : {};
  const { answers, error } = useColumns((): ScalarsQuery[] => {
    if (names.length === 0) return [];
    const whole = {
      what: "scalars",
      run: run.name,
      names: ["time/step"],
      points: POINTS_OF_ALL,
      rank: rank.value,
    } as const;
    return [{ what: "scalars", run: run.name, names, points, rank: rank.value, ...part }, whole];
  });
  const failed = answers?.find((answer) => answer?.what === "failed");
  return {
    scalars: scalarsOf(answers?.[0]),
    all: scalarsOf(answers?.[1]).get("time/step"),
    error: failed?.what === "failed" ? failed.error : error,
    isThere: answers !== null && answers.length > 0,
  };
}

export function scalarsOf(answer: Answer | undefined): Scalars {
  return answer?.what === "scalars" ? answer.scalars : NOTHING;
}

/** How the horizontal axis of a single run's charts is drawn and zoomed; the same as on the other pages. */
export interface AxisProps {
  readonly xLabel: string;
  readonly xKind: "number" | "elapsed";
  readonly formatX: (value: number) => string;
  readonly zoom: Extent | null;
  readonly onZoom: (zoom: Extent | null) => void;
}

const WORDS = { step: "step", time: "after", samples: "samples" } as const;

export function axisProps(all: ScalarColumns | undefined): AxisProps {
  const kind = axis.value;
  const origin = originOf(all);
  return {
    xLabel: WORDS[kind],
    xKind: kind === "time" ? "elapsed" : "number",
    formatX: kind === "time" ? formatElapsed : formatShort,
    zoom: zoomOf(range.value, all, kind, origin),
    onZoom: (zoom) => (range.value = zoom && rangeOf(zoom, all, kind, origin)),
  };
}

/** The wall time that counts as zero. */
export function originOf(all: ScalarColumns | undefined): number {
  return all?.time[0] ?? 0;
}

/** The place of each row on the chosen axis. */
export function axisX(rows: ScalarColumns, all: ScalarColumns | undefined): Float64Array {
  if (axis.value === "time") return rows.time.map((time) => time - originOf(all));
  if (axis.value === "samples" && rows.samples.some(Number.isFinite)) return rows.samples;
  return rows.last;
}
