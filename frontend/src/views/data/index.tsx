import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { ViewProps } from "../../app/view";
import { formatCount, formatPercent, formatShort } from "../../lib/format";
import { phaseShares, phaseSplit, recentFrom, TIME_SCALARS } from "../../lib/phases";
import { newest, recentMean, throughput } from "../../lib/vitals";
import { useRun } from "../../wire/client";
import type { RunDetails, RunRow } from "../../wire/types";
import { type RunScalars, useRunScalars } from "../resources/run-scalars";
import { Section, Tile, Tiles } from "../resources/tiles";
import { rateColumns, waitColumns } from "./derived";
import { DerivedChart } from "./derived-chart";
import { LearningRates } from "./rates";
import { RecordedSection } from "./recorded";
import { WaitText } from "./wait";
import "./data.css";

const NAMES = [...TIME_SCALARS, "batch_size"];
const POINTS = 300;
/** Of more than these lines none could be followed. */
const MOST_RUNS = 12;

/** What goes into the network, and how fast. */
export function TrainingDataView({ runs, run }: ViewProps): JSX.Element {
  const details = useRun(run?.name ?? null);
  if (!run) return <p class="hint">Select a run from the list.</p>;
  if (!details) return <p class="hint">Reading the run …</p>;
  return <DataPage key={run.name} run={run} runs={inFocusFirst(runs, run)} details={details} />;
}

function inFocusFirst(runs: readonly RunRow[], run: RunRow): readonly RunRow[] {
  return [run, ...runs.filter(({ name }) => name !== run.name)].slice(0, MOST_RUNS);
}

interface DataPageProps {
  readonly run: RunRow;
  readonly runs: readonly RunRow[];
  readonly details: RunDetails;
}

function DataPage({ run, runs, details }: DataPageProps): JSX.Element {
  const names = NAMES.filter((name) => details.scalars.includes(name));
  const data = useRunScalars(run, names, POINTS);
  const isTimed = details.scalars.includes("time/step");
  if (isTimed && !data.isThere) return <p class="hint">{data.error ?? "Loading …"}</p>;
  return (
    <div class="page-sections">
      {isTimed ? <Figures data={data} /> : <NotTimed details={details} />}
      <Section title="Data throughput">
        <WaitText scalars={data.scalars} />
        <div class="card-grid">
          <DerivedChart
            title="Waiting for data, % of step"
            runs={runs}
            names={["time/step", "time/data"]}
            make={waitColumns}
            format={formatPercent}
            exportName="data-wait-share"
            empty="The time spent waiting for data was not recorded in these steps."
          />
          <DerivedChart
            title="Samples per second"
            runs={runs}
            names={["time/step", "batch_size"]}
            make={rateColumns}
            format={formatShort}
            exportName="samples-per-second"
            empty="Batch sizes were not recorded: no input of the model has the batch as its first dimension, or batches=False was set."
          />
          <DerivedChart
            title="Batch size"
            runs={runs}
            names={["batch_size"]}
            make={(scalars) => scalars.get("batch_size")}
            format={formatCount}
            exportName="batch-size"
            empty="Batch sizes were not recorded."
          />
          <LearningRates run={run} details={details} />
        </div>
      </Section>
      <RecordedSection run={run} details={details} />
    </div>
  );
}

function NotTimed({ details }: { readonly details: RunDetails }): JSX.Element {
  return (
    <p class="page-reading">
      {details.kind === "summary"
        ? "This run was written by a SummaryWriter, which records neither batches nor times. Its histograms are shown below."
        : "No step has been timed in this run yet: call monitor.step() at the end of each batch."}
    </p>
  );
}

function Figures({ data }: { readonly data: RunScalars }): JSX.Element {
  const { scalars } = data;
  const split = useMemo(() => phaseSplit(scalars), [scalars]);
  const wait = split && scalars.has("time/data") ? phaseShares(split, recentFrom(split.whole)).data : NaN;
  const speed = throughput(scalars);
  const batch = scalars.get("batch_size");
  const seen = batch?.samples.at(-1);
  const size = recentMean(batch);
  return (
    <Tiles label="Data at a glance">
      <Tile title="Batch size" value={Number.isFinite(size) ? formatCount(size) : "–"} note={sizeNote(data)} />
      <Tile
        title="Samples per second"
        value={Number.isFinite(speed.samples) ? formatShort(speed.samples) : "–"}
        note={Number.isFinite(speed.steps) ? `${formatShort(speed.steps)} steps per second` : undefined}
      />
      <Tile
        title="Waiting for data"
        value={Number.isFinite(wait) ? formatPercent(wait) : "–"}
        note="of each step"
        tone={wait >= 0.2 ? "bad" : wait >= 0.05 ? "warning" : undefined}
      />
      <Tile
        title="Samples seen"
        value={seen !== undefined && Number.isFinite(seen) ? formatShort(seen) : "–"}
        note="up to the last step shown"
      />
    </Tiles>
  );
}

/** Smaller batches at the end of each epoch are usual, and worth knowing. */
function sizeNote({ scalars }: RunScalars): string | undefined {
  const batch = scalars.get("batch_size");
  if (!batch) return "not recorded";
  const least = batch.min.reduce((low, value) => (value < low ? value : low), Infinity);
  const most = batch.max.reduce((high, value) => (value > high ? value : high), -Infinity);
  if (least === most) return "always";
  return `from ${formatCount(least)} to ${formatCount(most)}, last ${formatCount(newest(batch))}`;
}
