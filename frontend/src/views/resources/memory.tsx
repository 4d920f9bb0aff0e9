import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { colourOf, smoothing, theme } from "../../app/state";
import { LineChart, type LineSeries } from "../../charts/line-chart";
import { categorical } from "../../lib/colour";
import { curveOf } from "../../lib/curves";
import { formatBytes, formatNumber } from "../../lib/format";
import { titleOf } from "../../lib/scalars";
import { isStacked, memoryReading, type MemoryStack, memoryStacks } from "../../lib/memory";
import type { RunDetails, RunRow } from "../../wire/types";
import { axis } from "../../app/state";
import { axisProps, axisX, originOf, type RunScalars } from "./run-scalars";
import { StackChart } from "./stack-chart";
import { Section } from "./tiles";

interface MemoryProps {
  readonly run: RunRow;
  readonly details: RunDetails;
  readonly data: RunScalars;
}

const COLOURS: Readonly<Record<string, number>> = {
  rss: 0,
  process: 0,
  allocated: 0,
  children: 2,
  others: 7,
  cached: 5,
};

/** Memory of host and devices, and how busy devices are. */
export function MemorySection({ run, details, data }: MemoryProps): JSX.Element {
  const stacks = useMemo(() => memoryStacks(data.scalars), [data.scalars]);
  const others = [...data.scalars.keys()].filter(
    (name) => name.startsWith("memory/") && !isStacked(name) && !name.endsWith("_count"),
  );
  const loads = [...data.scalars.keys()].filter((name) => /^gpu\d+\/utilization$/.test(name));
  const warning = stacks.map(memoryReading).find((text) => text !== null) ?? null;
  if (stacks.length === 0) return <NoMemory details={details} />;
  return (
    <Section title="Memory" reading={warning ?? undefined} tone={warning ? "warning" : undefined}>
      <div class="card-grid">
        {stacks.map((stack) => (
          <div key={stack.key} class="card page-card">
            <MemoryChart stack={stack} data={data} />
          </div>
        ))}
        {loads.length > 0 && (
          <div class="card page-card">
            <Lines
              title="GPU utilization"
              names={loads}
              run={run}
              data={data}
              format={(value) => `${formatNumber(value, 3)} %`}
            />
          </div>
        )}
        {others.some((name) => (data.scalars.get(name)?.step.length ?? 0) > 1) && (
          <div class="card page-card">
            <Lines title="Shared and private pages" names={others} run={run} data={data} format={formatBytes} isBytes />
          </div>
        )}
      </div>
      {sentenceOf(details) && <p class="faint">{sentenceOf(details)}</p>}
    </Section>
  );
}

function NoMemory({ details }: { readonly details: RunDetails }): JSX.Element {
  return (
    <Section title="Memory">
      <p class="card nothing">
        No memory was recorded in this range. {sentenceOf(details)} Memory is read about once a second, so very short
        runs have few readings. With <code>memory=False</code> in <code>nd.watch</code>, it is not read at all.
      </p>
    </Section>
  );
}

/** What the recorder said about the memory it could read. */
function sentenceOf(details: RunDetails): string {
  const said = details.info["memory"];
  return typeof said === "string" ? said.slice(0, 500) : "";
}

function MemoryChart({ stack, data }: { readonly stack: MemoryStack; readonly data: RunScalars }): JSX.Element {
  const axisOf = axisProps(data.all);
  const x = useMemo(() => axisX(stack.rows, data.all), [stack, data.all, axisOf.xLabel]);
  const layers = useMemo(
    () =>
      stack.parts.map(({ key, title, meaning, bytes }) => ({
        key,
        title,
        meaning,
        colour: COLOURS[key] ?? 3,
        values: bytes,
      })),
    [stack],
  );
  return (
    <StackChart
      title={`${stack.title}, peak ${formatBytes(stack.peak)}`}
      x={x}
      layers={layers}
      axis={axisOf}
      formatY={formatBytes}
      yKind="bytes"
      limit={stack.limit === null ? null : { value: stack.limit, title: stack.limitTitle }}
      exportName={`memory-${stack.key}`}
      height={190}
    />
  );
}

interface LinesProps {
  readonly title: string;
  readonly names: readonly string[];
  readonly run: RunRow;
  readonly data: RunScalars;
  readonly format: (value: number) => string;
  readonly isBytes?: boolean;
}

function Lines({ title, names, run, data, format, isBytes = false }: LinesProps): JSX.Element {
  const colours = categorical(theme.value);
  const series = names.flatMap((name, place): LineSeries[] => {
    const columns = data.scalars.get(name);
    if (!columns) return [];
    const colour = names.length === 1 ? colourOf(run.name) : (colours[place % colours.length] ?? "");
    const label = /^gpu\d+\/utilization$/.test(name) ? `GPU ${parseInt(name.slice(3), 10)}` : titleOf(name);
    return [{ label, colour, ...curveOf(columns, axis.value, smoothing.value, originOf(data.all)) }];
  });
  return (
    <LineChart
      {...axisProps(data.all)}
      title={title}
      series={series}
      formatY={format}
      yKind={isBytes ? "bytes" : "number"}
      syncKey="steps"
      legend={series.length > 1}
      exportName={title}
      height={190}
    />
  );
}
