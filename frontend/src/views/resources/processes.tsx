import type { JSX } from "preact";
import { now } from "../../app/clock";
import { colourOf, rank } from "../../app/state";
import { LineChart } from "../../charts/line-chart";
import { formatAge, formatElapsed } from "../../lib/elapsed";
import { formatBytes, formatCount, formatNumber } from "../../lib/format";
import { useColumns } from "../../wire/client";
import type { ProcessesAnswer, RunDetails, RunRow } from "../../wire/types";
import { Section } from "./tiles";

interface ProcessesProps {
  readonly run: RunRow;
  readonly details: RunDetails;
}

/** The training as the agent beside it sees it: also when no step ends any more. */
export function ProcessesSection({ run, details }: ProcessesProps): JSX.Element | null {
  const isSeen = details.processes.length > 0;
  const { answers } = useColumns(() => (isSeen ? [{ what: "processes", run: run.name, rank: rank.value }] : []));
  const answer = answers?.[0];
  if (!isSeen) return null;
  return (
    <Section title="Processes, seen from outside" reading={<Newest details={details} />}>
      {answer?.what === "processes" && answer.time.length > 0 && (
        <div class="card page-card">
          <MemoryOfAll run={run} details={details} answer={answer} />
        </div>
      )}
    </Section>
  );
}

function Newest({ details }: { readonly details: RunDetails }): JSX.Element | null {
  const seen = details.processes.find((each) => each.rank === rank.value);
  if (!seen) return null;
  const what = seen.processes === 1 ? "One process" : `${formatCount(seen.processes)} processes`;
  return (
    <>
      {what} with {formatCount(seen.threads)} threads had {formatBytes(seen.tree_bytes)} of memory and kept{" "}
      {formatNumber(seen.cpu_share, 2)} processors busy, {formatAge(now.value - seen.time)} ago.
    </>
  );
}

function MemoryOfAll({ run, details, answer }: ProcessesProps & { readonly answer: ProcessesAnswer }): JSX.Element {
  const origin = details.first_time ?? answer.time[0] ?? 0;
  const colour = colourOf(run.name);
  const series = {
    label: "mean",
    colour,
    x: answer.time.map((time) => time - origin),
    y: answer.tree_bytes,
    low: answer.tree_bytes,
    high: answer.most_bytes,
  };
  const most = answer.most_bytes.reduce((high, value) => Math.max(high, value), 0);
  return (
    <LineChart
      title={`All processes, peak ${formatBytes(most)}`}
      series={[series]}
      xLabel="after"
      xKind="elapsed"
      formatX={formatElapsed}
      formatY={formatBytes}
      yKind="bytes"
      exportName="memory-processes"
      height={190}
    />
  );
}
