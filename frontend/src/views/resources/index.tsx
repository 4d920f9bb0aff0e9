import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { ViewProps } from "../../app/view";
import { formatBytes, formatPercent, formatSeconds, formatShort } from "../../lib/format";
import { memoryNames, memoryStacks } from "../../lib/memory";
import { stepTimes, TIME_SCALARS } from "../../lib/phases";
import { newest, throughput } from "../../lib/vitals";
import { useRun } from "../../wire/client";
import type { RunDetails, RunRow } from "../../wire/types";
import { DistributionSection } from "./distribution";
import { MachineSection } from "./machine";
import { MemorySection } from "./memory";
import { MonitoringSection, MONITOR_SCALARS } from "./monitoring";
import { ProcessesSection } from "./processes";
import { RanksSection } from "./ranks";
import { type RunScalars, useRunScalars } from "./run-scalars";
import { StepTimeSection } from "./step-time";
import { Tile, Tiles } from "./tiles";
import "./resources.css";

const POINTS = 600;

export function ResourcesView({ run }: ViewProps): JSX.Element {
  const details = useRun(run?.name ?? null);
  if (!run) return <p class="hint">Select a run from the list.</p>;
  if (!details) return <p class="hint">Reading the run …</p>;
  if (details.kind === "summary") return <NothingRecorded />;
  return <Resources key={run.name} run={run} details={details} />;
}

function NothingRecorded(): JSX.Element {
  return (
    <section class="notice">
      <h2>This run holds no step times or memory</h2>
      <p>
        It was written by a SummaryWriter. To record step times, the memory of processes and GPUs, and the cost of
        monitoring, use:
      </p>
      <pre class="code">
        {
          "import tb_netdebug as nd\n\n# before the loop\nmonitor = nd.watch(model, optimizer)\n# at the end of each batch\nmonitor.step(loss=loss)"
        }
      </pre>
    </section>
  );
}

interface ResourcesProps {
  readonly run: RunRow;
  readonly details: RunDetails;
}

function Resources({ run, details }: ResourcesProps): JSX.Element {
  const names = useMemo(
    () =>
      [...TIME_SCALARS, "batch_size", ...memoryNames(details.scalars), ...MONITOR_SCALARS].filter((name) =>
        details.scalars.includes(name),
      ),
    [details.scalars.join("\n")],
  );
  const data = useRunScalars(run, names, POINTS);
  if (names.length === 0) return <Unmeasured run={run} details={details} />;
  if (!data.isThere) return <p class="hint">{data.error ?? "Loading …"}</p>;
  return (
    <div class="page-sections">
      {data.error && <p class="page-reading bad">{data.error}</p>}
      <Figures details={details} data={data} />
      <StepTimeSection data={data} />
      <DistributionSection run={run} whole={data.scalars.get("time/step")} />
      <MemorySection run={run} details={details} data={data} />
      <ProcessesSection run={run} details={details} />
      <RanksSection run={run} details={details} />
      <MonitoringSection run={run} details={details} data={data} />
      <MachineSection details={details} />
    </div>
  );
}

function Unmeasured({ run, details }: ResourcesProps): JSX.Element {
  return (
    <div class="page-sections">
      <p class="hint">No step times or memory have been recorded in this run yet.</p>
      <ProcessesSection run={run} details={details} />
    </div>
  );
}

function Figures({ details, data }: { readonly details: RunDetails; readonly data: RunScalars }): JSX.Element {
  const times = useMemo(() => stepTimes(data.scalars.get("time/step")), [data.scalars]);
  const stacks = useMemo(() => memoryStacks(data.scalars), [data.scalars]);
  const speed = throughput(data.scalars);
  const overhead = newest(data.scalars.get("monitor/overhead")) ?? details.overhead;
  return (
    <Tiles label="Resources at a glance">
      <Tile
        title="Median step"
        value={times ? formatSeconds(times.median) : "–"}
        note={times ? `longest ${formatSeconds(times.longest)}` : "not timed"}
      />
      <Tile
        title="Steps per second"
        value={Number.isFinite(speed.steps) ? formatShort(speed.steps) : "–"}
        note={Number.isFinite(speed.samples) ? `${formatShort(speed.samples)} samples per second` : undefined}
      />
      {stacks
        .filter(({ key }) => !key.startsWith("cuda"))
        .slice(0, 3)
        .map(({ key, title, peak, limit }) => (
          <Tile
            key={key}
            title={`${title} memory, peak`}
            value={formatBytes(peak)}
            note={limit === null ? undefined : `${formatPercent(peak / limit)} of ${formatBytes(limit)}`}
            tone={limit !== null && peak / limit > 0.9 ? "warning" : undefined}
          />
        ))}
      <Tile
        title="Cost of monitoring"
        value={overhead === null ? "–" : formatPercent(overhead)}
        note="of the training time"
      />
    </Tiles>
  );
}
