import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { range, rank } from "../../app/state";
import { formatCount } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { useColumns, type ColumnsState } from "../../wire/client";
import type { Answer, Histogram, Kind, Query, RunRow } from "../../wire/types";
import { BeyondNote } from "../layers/beyond-note";
import { openLayer, showsEverything, valueScale } from "../layers/choices";
import { histogramsIn } from "../layers/density-chart";
import { heatAnswer } from "../layers/heat-table";
import { queryRange } from "../layers/steps";
import { Beside, countOf } from "./beside";
import { setStep, type HistogramChoices } from "./choices";
import { CompareChoice, Sides } from "./compare-bar";
import { fittedAxis } from "./fitting";
import { Looks, Why } from "./looks";
import { OverTime } from "./over-time";
import { sampleSteps } from "./samples";
import { ShownHistogram, shownText } from "./shown-histogram";
import { StepBar } from "./step-bar";
import { Tables } from "./tables";

export interface TensorHistogramProps {
  readonly run: RunRow;
  readonly runs: readonly RunRow[];
  readonly kind: Kind;
  readonly name: string;
  readonly choices: HistogramChoices;
}

/** A step that no run reaches: the newest sample is what lies before it. */
const NEWEST = Number.MAX_SAFE_INTEGER;
const RIDGES = 40;
const SAMPLES = 1000;

export function TensorHistogram({ run, runs, kind, name, choices }: TensorHistogramProps): JSX.Element {
  const common = { run: run.name, kind, rank: rank.value, ...queryRange() };
  const overTime = useColumns(() => [
    // The pattern finds other names, too, but few. Of NaN alone there is no size, but this share.
    { what: "heat", statistic: "nonfinite", pattern: name, columns: SAMPLES, ...common },
    { what: "histograms", name, columns: RIDGES, ...common },
  ]);
  const shown = useColumns(() => histogramQueries(run, kind, name, choices));
  const samples = useMemo(() => sampleSteps(heatAnswer(overTime.answers?.[0]), name), [overTime.answers, name]);
  const ridges = overTime.answers?.find((each) => each?.what === "histograms") ?? null;
  const [a, b] = [histogramOf(shown.answers?.[0]), histogramOf(shown.answers?.[1])];
  const histograms = useMemo(() => [a, b].filter((each) => each !== null), [a, b]);
  const error = overTime.error ?? shown.error ?? failure(shown.answers) ?? failure(overTime.answers);
  const scale = valueScale();
  const everything = showsEverything();
  const fitted = useMemo(
    () => fittedAxis(histograms, ridges ? histogramsIn(ridges) : [], scale, choices.fit, everything),
    [histograms, ridges, choices.fit, scale, everything],
  );
  const others = runs.filter((each) => each.name !== run.name);
  const file = `${run.name}-${kind}-${name}`;
  return (
    <section class="card tensor-histogram" aria-label={`Histogram of ${shownName(name)}`}>
      <header class="layer-head">
        <h2 class="tensor-name" title={shownName(name)}>
          <bdi>{shownName(name)}</bdi>
        </h2>
        <span class="muted">{a ? shownText(a) : ""}</span>
        <button
          type="button"
          class="link"
          title="Its quantiles and statistics over time"
          onClick={() => openLayer(kind, name)}
        >
          Open in Layers
        </button>
        <span class="grow" />
        <CompareChoice run={run} others={others} choices={choices} samples={samples} />
      </header>
      {error && (
        <p class="bad" role="alert">
          {error}
        </p>
      )}
      <StepBar choices={choices} samples={samples} ready={!shown.loading} />
      {choices.against && <Sides run={run} against={choices.against} a={a} b={b} />}
      <Looks choices={choices} compared={histograms.length > 1} />
      <div class="histogram-and-time">
        <div class="histogram-main">
          {shown.answers?.[0] && a === null && !error && (
            <p class="hint">No sample of this tensor at or before this step.</p>
          )}
          {histograms.length > 0 && (
            <>
              <h3>{a ? `${formatCount(countOf(a))} values` : ""}</h3>
              <ShownHistogram
                histograms={histograms}
                axis={fitted?.axis ?? null}
                choices={choices}
                name={name}
                file={file}
              />
              <BeyondNote beyond={fitted?.beyond ?? null} />
              <Why mode={choices.mode} />
              <Beside histograms={histograms} />
              <Tables histograms={histograms} />
            </>
          )}
        </div>
        {ridges && ridges.first.length > 0 && (
          <OverTime
            answer={ridges}
            axis={fitted?.axis ?? null}
            scale={scale}
            choices={choices}
            run={run}
            chosen={a?.last ?? null}
            name={shownName(name)}
            file={file}
            onPick={(step) => setStep(step >= (samples.at(-1) ?? Infinity) ? null : step)}
          />
        )}
      </div>
    </section>
  );
}

function histogramQueries(run: RunRow, kind: Kind, name: string, choices: HistogramChoices): Query[] {
  const newest = range.value?.last ?? NEWEST;
  const last = choices.to ?? choices.step ?? newest;
  const ask = (of: string, from: number, to: number): Query => ({
    what: "histogram",
    run: of,
    kind,
    name,
    first: from,
    last: to,
    rank: rank.value,
  });
  const queries = [ask(run.name, choices.to === null ? last : (choices.step ?? last), last)];
  const { against } = choices;
  if (against) queries.push(ask(against.run ?? run.name, against.step ?? last, against.step ?? last));
  return queries;
}

function histogramOf(answer: Answer | undefined): Histogram | null {
  return answer?.what === "histogram" ? answer.histogram : null;
}

function failure(answers: ColumnsState["answers"]): string | null {
  const failed = answers?.find((each) => each?.what === "failed");
  return failed?.what === "failed" ? failed.error : null;
}
