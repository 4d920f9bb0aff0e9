import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { axis, colourOf, range, rank } from "../../app/state";
import { useInSight } from "../../charts/in-sight";
import { LineChart, type LineSeries } from "../../charts/line-chart";
import { formatNumber, formatPercent } from "../../lib/format";
import { useColumns } from "../../wire/client";
import { QUANTILES, type BandsAnswer, type BandsQuery, type RunDetails, type RunRow } from "../../wire/types";
import { openHistogram } from "../layers/choices";
import { axisProps } from "../resources/run-scalars";
import { Section } from "../resources/tiles";

interface RecordedProps {
  readonly run: RunRow;
  readonly details: RunDetails;
}

interface TensorGroup {
  readonly title: string;
  readonly names: readonly string[];
}

const MOST_CHARTS = 24;

/** Inputs, labels and whatever else was given to `monitor.tensor`, each with its distribution over time. */
export function RecordedSection({ run, details }: RecordedProps): JSX.Element {
  const groups = useMemo(() => groupsOf(details), [details]);
  return (
    <>
      {groups.map((group) => (
        <Section key={group.title} title={group.title}>
          <div class="card-grid halves">
            {group.names.slice(0, MOST_CHARTS).map((name) => (
              <TensorChart key={name} run={run} name={name} />
            ))}
          </div>
          {group.names.length > MOST_CHARTS && (
            <p class="muted">
              The first {MOST_CHARTS} of {group.names.length} are shown; the Histograms page has all of them.
            </p>
          )}
        </Section>
      ))}
      <NotRecorded groups={groups} />
    </>
  );
}

function groupsOf(details: RunDetails): TensorGroup[] {
  const names = details.series.filter(({ kind }) => kind === "tensor").map(({ name }) => name);
  const starting = (prefix: string): string[] => names.filter((name) => name.startsWith(prefix));
  const others = names.filter((name) => !name.startsWith("input/") && !name.startsWith("label/"));
  return [
    { title: "Inputs", names: starting("input/") },
    { title: "Labels", names: starting("label/") },
    { title: "Your own tensors", names: others },
  ].filter(({ names: found }) => found.length > 0);
}

function NotRecorded({ groups }: { readonly groups: readonly TensorGroup[] }): JSX.Element | null {
  const has = (title: string): boolean => groups.some((group) => group.title === title);
  const missing = [has("Inputs") ? "" : "the values of the inputs", has("Labels") ? "" : "the labels"].filter(Boolean);
  if (missing.length === 0) return null;
  return (
    <Section title="Not recorded">
      <div class="card nothing">
        <p>
          This run does not hold {missing.join(" and ")}, nor the order of the batches. Only the size of each batch is
          recorded automatically. To see more of the data here, pass it to the monitor:
        </p>
        <pre class="data-code">{'monitor.tensor("input/pixels", images)\nmonitor.tensor("label/class", labels)'}</pre>
      </div>
    </Section>
  );
}

const COLUMNS = 160;
const [LOW, MEDIAN, HIGH] = ([0.05, 0.5, 0.95] as const).map((share) => QUANTILES.indexOf(share));

function TensorChart({ run, name }: { readonly run: RunRow; readonly name: string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const inSight = useInSight(place);
  const part = range.value ? { first: range.value.first, last: range.value.last } : {};
  const { answers, error } = useColumns((): BandsQuery[] =>
    inSight
      ? [{ what: "bands", run: run.name, kind: "tensor", name, columns: COLUMNS, rank: rank.value, ...part }]
      : [],
  );
  const seen = useRef<BandsAnswer | null>(null);
  const answer = answers?.[0];
  if (answer?.what === "bands") seen.current = answer;
  const bands = seen.current;
  return (
    <div ref={place} class="card page-card">
      <LineChart
        {...stepAxis()}
        title={name}
        series={bands ? [bandSeries(bands, name, colourOf(run.name))] : []}
        formatY={(value) => formatNumber(value, 3)}
        syncKey={axis.value === "step" ? "steps" : `tensor ${name}`}
        exportName={name}
        height={150}
        empty={error ?? (answers === null || answers.length === 0 ? "Loading …" : "No sample in these steps.")}
      />
      <p class="data-facts">
        <span>{factsOf(bands)}</span>
        <button type="button" class="link" onClick={() => openHistogram("tensor", name, null)}>
          Histograms
        </button>
      </p>
    </div>
  );
}

/** Quantiles come by steps only, whatever axis the other charts have. */
function stepAxis(): Pick<Parameters<typeof LineChart>[0], "xLabel" | "formatX" | "zoom" | "onZoom"> {
  const { zoom, onZoom, ...rest } = axisProps(undefined);
  const isStep = axis.value === "step";
  return {
    xLabel: "step",
    formatX: isStep ? rest.formatX : String,
    zoom: isStep ? zoom : null,
    ...(isStep ? { onZoom } : {}),
  };
}

function bandSeries(bands: BandsAnswer, name: string, colour: string): LineSeries {
  const column = (place: number | undefined): Float64Array =>
    Float64Array.from(bands.first, (_, row) => bands.quantiles[row * QUANTILES.length + (place ?? 0)] ?? NaN);
  const nonfinite = bands.statistics.get("nonfinite");
  return {
    label: `${name}: median, and from 5 to 95 %`,
    colour,
    x: bands.last,
    y: column(MEDIAN),
    low: column(LOW),
    high: column(HIGH),
    ...(nonfinite ? { bad: nonfinite } : {}),
  };
}

/** The newest sample in a line. */
function factsOf(bands: BandsAnswer | null): string {
  if (!bands || bands.first.length === 0) return "";
  const newest = (name: string): number => bands.statistics.get(name)?.at(-1) ?? NaN;
  const text = (name: string): string => formatNumber(newest(name), 3);
  const bad = newest("nonfinite");
  const parts = [`mean ${text("mean")}`, `std ${text("std")}`, `from ${text("min")} to ${text("max")}`];
  if (newest("zeros") > 0) parts.push(`${formatPercent(newest("zeros"))} zeros`);
  if (bad > 0) parts.push(`${formatPercent(bad)} not finite`);
  return parts.join(", ");
}
