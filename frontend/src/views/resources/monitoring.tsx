import type { JSX } from "preact";
import { axis, colourOf, smoothing } from "../../app/state";
import { LineChart } from "../../charts/line-chart";
import { curveOf } from "../../lib/curves";
import { formatBytes, formatCount, formatNumber, formatPercent } from "../../lib/format";
import { newest, recentMean } from "../../lib/vitals";
import type { Gap, RunDetails, RunRow } from "../../wire/types";
import { axisProps, originOf, type RunScalars } from "./run-scalars";
import { Section } from "./tiles";

export const MONITOR_SCALARS = [
  "monitor/overhead",
  "monitor/every",
  "writer/dropped_steps",
  "writer/dropped_samples",
] as const;

interface MonitoringProps {
  readonly run: RunRow;
  readonly details: RunDetails;
  readonly data: RunScalars;
}

/** What watching costs, and what was lost. */
export function MonitoringSection({ run, details, data }: MonitoringProps): JSX.Element {
  return (
    <Section title="Monitoring" reading={readingOf(details, data)}>
      <div class="card-grid">
        <div class="card page-card">
          <Line name="monitor/overhead" title="Cost of monitoring" run={run} data={data} format={formatPercent} />
        </div>
        <div class="card page-card">
          <Line
            name="monitor/every"
            title="Steps between full samples"
            run={run}
            data={data}
            format={(value) => formatNumber(value, 3)}
          />
        </div>
      </div>
      <p class={droppedOf(data).isLoss ? "page-reading warning" : "muted"}>{droppedOf(data).text}</p>
      <Gaps gaps={details.gap_list} count={details.gaps ?? details.gap_list.length} />
    </Section>
  );
}

function readingOf(details: RunDetails, data: RunScalars): string {
  const overhead = newest(data.scalars.get("monitor/overhead") ?? undefined) ?? details.overhead;
  const every = usualDistance(data) ?? details.sampled_every;
  if (overhead === null) return "The cost of monitoring was not recorded here.";
  const often =
    every === null
      ? ""
      : every > 1.05
        ? `, with all statistics about every ${formatNumber(every, 2)} steps`
        : ", with all statistics in every step";
  return `Monitoring has cost ${formatPercent(overhead)} of the training time${often}.`;
}

/** From one full sample to the next in the middle: while the monitor adapts, single distances say little. */
function usualDistance(data: RunScalars): number | null {
  const columns = data.scalars.get("monitor/every");
  const known = columns?.mean.filter(Number.isFinite) ?? new Float64Array();
  return known.length > 0 ? recentMean(columns, known.length) : null;
}

function droppedOf(data: RunScalars): { readonly text: string; readonly isLoss: boolean } {
  const steps = newest(data.scalars.get("writer/dropped_steps") ?? undefined) ?? 0;
  const samples = newest(data.scalars.get("writer/dropped_samples") ?? undefined) ?? 0;
  if (!(steps > 0) && !(samples > 0)) return { text: "The writer kept up: nothing was dropped.", isLoss: false };
  const what = [
    steps > 0 ? `${formatCount(steps)} steps` : "",
    samples > 0 ? `${formatCount(samples)} samples` : "",
  ].filter(Boolean);
  return {
    text: `The disk was too slow for the writer: ${what.join(" and ")} were dropped so that the training did not wait. Write to a faster disk, or sample less often (every=…).`,
    isLoss: true,
  };
}

const MOST_GAPS = 20;

function Gaps({ gaps, count }: { readonly gaps: readonly Gap[]; readonly count: number }): JSX.Element {
  if (count === 0) return <p class="muted">All files were read without gaps.</p>;
  return (
    <div class="card page-card">
      <h4>{count === 1 ? "One place could not be read" : `${formatCount(count)} places could not be read`}</h4>
      <ul class="gap-list">
        {gaps.slice(0, MOST_GAPS).map((gap) => (
          <li key={`${gap.file} ${gap.offset}`}>
            {formatBytes(gap.size)} of <bdi>{shortFile(gap.file)}</bdi>, from byte {formatCount(gap.offset)}:{" "}
            {gap.complaint.slice(0, 300)}
          </li>
        ))}
        {count > Math.min(gaps.length, MOST_GAPS) && (
          <li class="muted">and {formatCount(count - Math.min(gaps.length, MOST_GAPS))} more</li>
        )}
      </ul>
      <p class="faint">Everything before and after is shown. Steps recorded in these places are missing.</p>
    </div>
  );
}

function shortFile(file: string): string {
  return file.slice(file.lastIndexOf("/") + 1).slice(0, 160);
}

interface LineProps {
  readonly name: string;
  readonly title: string;
  readonly run: RunRow;
  readonly data: RunScalars;
  readonly format: (value: number) => string;
}

function Line({ name, title, run, data, format }: LineProps): JSX.Element {
  const columns = data.scalars.get(name);
  const series = columns
    ? [
        {
          label: title,
          colour: colourOf(run.name),
          ...curveOf(columns, axis.value, smoothing.value, originOf(data.all)),
        },
      ]
    : [];
  return (
    <LineChart
      {...axisProps(data.all)}
      title={title}
      series={series}
      formatY={format}
      syncKey="steps"
      exportName={name}
      height={150}
      empty="Not recorded in these steps."
    />
  );
}
