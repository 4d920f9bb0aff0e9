import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { rank, setParam, theme } from "../../app/state";
import { Icon } from "../../app/icons";
import { shownName } from "../../lib/tensor-name";
import { kindLabel } from "../../lib/tensor-statistics";
import { useColumns } from "../../wire/client";
import type { Kind, RunRow } from "../../wire/types";
import { BandsChart, BandsLegend } from "./bands-chart";
import { openHistogram, setValueScale, valueScale } from "./choices";
import { DensityChart } from "./density-chart";
import { Segments, VALUE_AXES } from "./segments";
import { StatisticLines } from "./statistic-lines";
import { boundsOf, queryRange, shownWindow, stepMoves } from "./steps";

export interface LayerDetailProps {
  readonly run: RunRow;
  readonly kind: Kind;
  readonly name: string;
  readonly step: Signal<number | null>;
}

const BAND_COLUMNS = 300;
const HISTOGRAM_COLUMNS = 96;

/** One tensor over time: its quantiles, its histograms, its statistics. */
export function LayerDetail({ run, kind, name, step }: LayerDetailProps): JSX.Element {
  const common = { run: run.name, kind, name, rank: rank.value, ...queryRange() };
  const { answers, error } = useColumns(() => [
    { what: "bands", columns: BAND_COLUMNS, ...common },
    { what: "histograms", columns: HISTOGRAM_COLUMNS, ...common },
  ]);
  const bounds = boundsOf(run);
  const [bands, histograms] = answers ?? [];
  const open = (at: number | null): void => openHistogram(kind, name, at);
  return (
    <section class="card layer-detail" aria-label={`Details of ${shownName(name)}`}>
      <header class="layer-head">
        <h2 class="tensor-name">
          <bdi>{shownName(name)}</bdi>
        </h2>
        <span class="muted">{kindLabel(kind)}</span>
        <span class="grow" />
        <Segments options={VALUE_AXES} value={valueScale()} onChange={setValueScale} label="Axis of values" />
        <button type="button" class="button" onClick={() => open(null)}>
          Histogram <Icon name="chevron" />
        </button>
        <button type="button" class="button icon-button" title="Close" onClick={() => setParam("layers.tensor", null)}>
          <Icon name="close" />
          <span class="unseen">Close</span>
        </button>
      </header>
      {!answers && !error && <p class="hint">Reading the run …</p>}
      {error && <p class="bad">{error}</p>}
      {bands?.what === "failed" && <p class="bad">{bands.error}</p>}
      {bands?.what === "bands" && bands.first.length === 0 && (
        <p class="hint">No samples of this tensor in these steps.</p>
      )}
      {bands?.what === "bands" && bounds && bands.first.length > 0 && (
        <Charts
          bands={bands}
          histograms={histograms}
          bounds={bounds}
          name={name}
          kind={kind}
          run={run}
          step={step}
          open={open}
        />
      )}
    </section>
  );
}

type Answers = NonNullable<ReturnType<typeof useColumns>["answers"]>;

interface ChartsProps extends LayerDetailProps {
  readonly bands: Extract<Answers[number], { what: "bands" }>;
  readonly histograms: Answers[number] | undefined;
  readonly bounds: NonNullable<ReturnType<typeof boundsOf>>;
  readonly open: (step: number) => void;
}

function Charts({ bands, histograms, bounds, name, kind, run, step, open }: ChartsProps): JSX.Element | null {
  const window = shownWindow(bands.first, bands.last, bounds);
  if (!window) return null;
  const moves = stepMoves(window, bounds);
  const file = `${run.name}-${kind}-${name}`;
  const shared = { window, scale: valueScale(), moves, step, onPick: open, name: shownName(name) };
  return (
    <>
      <div class="layer-charts">
        <div>
          <h3>
            Quantiles <span class="faint">click a step for its histogram</span>
          </h3>
          <BandsChart {...shared} answer={bands} exportName={`${file}-quantiles`} />
          <BandsLegend theme={theme.value} />
        </div>
        <div>
          <h3>
            Histograms over time{" "}
            <span class="faint">the {theme.value === "dark" ? "brighter" : "darker"}, the more values</span>
          </h3>
          {histograms?.what === "histograms" && (
            <DensityChart {...shared} answer={histograms} exportName={`${file}-histograms`} />
          )}
        </div>
      </div>
      <StatisticLines bands={bands} kind={kind} file={file} />
    </>
  );
}
