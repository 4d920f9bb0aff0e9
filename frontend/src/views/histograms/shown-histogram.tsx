import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { formatCount } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import type { ValueAxis } from "../../lib/value-axis";
import type { Histogram } from "../../wire/types";
import { stepsText } from "../layers/heat-cell";
import { countOf } from "./beside";
import type { HistogramChoices } from "./choices";
import { HistogramChart } from "./histogram-chart";

export interface ShownHistogramProps {
  readonly histograms: readonly Histogram[];
  readonly axis: ValueAxis | null;
  readonly choices: HistogramChoices;
  readonly name: string;
  readonly file: string;
}

/** The bars, or a sentence when there is nothing that could stand on an axis. */
export function ShownHistogram({ histograms, axis, choices, name, file }: ShownHistogramProps): JSX.Element {
  const shapes = useMemo(
    () => histograms.map((each) => ({ bins: each, nonfinite: each.nan + each.pos_inf + each.neg_inf })),
    [histograms],
  );
  const [a] = histograms;
  const onAxis = histograms.some((each) => countOf(each) > each.zeros + each.nan + each.pos_inf + each.neg_inf);
  if (!axis || !onAxis) {
    const finite = histograms.some((each) => each.counts.length > 0);
    return <p class="hint">{finite ? "All finite values are exactly zero." : "There is no finite value."}</p>;
  }
  return (
    <HistogramChart
      histograms={shapes}
      axis={axis}
      mode={choices.mode}
      log={choices.logCounts}
      label={`Histogram of ${shownName(name)}, ${a ? shownText(a) : ""}: ${formatCount(a ? countOf(a) : 0)} values`}
      exportName={`${file}-step-${a?.last ?? ""}`}
      height={histograms.length > 1 ? 370 : 300}
    />
  );
}

/** Of which steps it is. */
export function shownText(histogram: Histogram): string {
  const merged = histogram.merged > 1 ? `, ${formatCount(histogram.merged)} samples merged` : "";
  const steps = histogram.last > histogram.first ? "steps" : "step";
  return `${steps} ${stepsText(histogram.first, histogram.last)}${merged}`;
}
