import type { ComponentChildren, JSX } from "preact";
import { colourOf } from "../../app/state";
import { Sparkline } from "../../charts/sparkline";
import { formatBytes, formatCount, formatNumber, formatPercent, formatSeconds, formatShort } from "../../lib/format";
import * as vitals from "../../lib/vitals";
import type { RunDetails, RunRow, ScalarColumns } from "../../wire/types";
import { SplitBar } from "./split-bar";
import type { WholeRun } from "./whole-runs";

/** All scalars that the cards look at. */
export const VITAL_NAMES: readonly string[] = [
  "loss",
  "gradient_norm",
  "nonfinite_gradients",
  "time/step",
  "time/data",
  "time/forward",
  "time/backward",
  "time/optimizer",
  "batch_size",
  "lr/0",
  "memory/rss",
  "memory/gpu0/process",
  "memory/gpu0/used",
  "memory/gpu0/total",
  "memory/cuda0/reserved",
  "memory/mps/driver",
  "monitor/overhead",
  "monitor/every",
];

interface VitalsProps {
  readonly run: RunRow;
  readonly details: RunDetails | null;
  readonly whole: WholeRun | undefined;
}

interface Card {
  readonly title: string;
  readonly value: string;
  readonly tone?: "bad" | "good";
  readonly facts: ComponentChildren;
  readonly columns?: ScalarColumns | undefined;
  readonly log?: boolean;
  /** The chart that shows it at large. */
  readonly chart?: string;
}

/** A run's vital signs: a number, what to hold against it, and its course. */
export function Vitals({ run, details, whole }: VitalsProps): JSX.Element {
  const scalars = whole?.scalars ?? new Map<string, ScalarColumns>();
  const cards = [
    lossCard(scalars),
    gradientCard(scalars),
    nonFiniteCard(scalars, run),
    stepTimeCard(scalars),
    throughputCard(scalars),
    memoryCard(scalars),
    learningRateCard(scalars),
    overheadCard(scalars, details),
  ];
  return (
    <section class="vitals" aria-label="Vital signs">
      {cards.map((card) => (
        <VitalCard key={card.title} {...card} colour={colourOf(run.name)} />
      ))}
    </section>
  );
}

function VitalCard(card: Card & { readonly colour: string }): JSX.Element {
  const show = (): void => {
    document.getElementById(`chart-${card.chart}`)?.scrollIntoView({ block: "center", behavior: "smooth" });
  };
  return (
    <button type="button" class="card vital" disabled={card.chart === undefined} onClick={show}>
      <span class="vital-title">{card.title}</span>
      <span class={`vital-value ${card.tone ?? ""}`}>{card.value}</span>
      <span class="vital-facts">{card.facts}</span>
      <span class="vital-line">
        {card.columns && card.columns.mean.length > 1 && (
          <Sparkline x={card.columns.last} y={card.columns.mean} colour={card.colour} logY={card.log ?? false} />
        )}
      </span>
    </button>
  );
}

/** Without any of them nobody knows whether all was finite. */
const MAY_BE_BAD: readonly string[] = ["loss", "gradient_norm", "nonfinite_gradients"];

type Scalars = ReadonlyMap<string, ScalarColumns>;

function lossCard(scalars: Scalars): Card {
  const columns = scalars.get("loss");
  const value = vitals.newest(columns);
  const least = vitals.lowest(columns);
  return {
    title: "Loss",
    value: formatNumber(value),
    ...(value !== null && !Number.isFinite(value) ? { tone: "bad" as const } : {}),
    facts: least ? `lowest ${formatNumber(least.value)} near step ${formatShort(least.step)}` : "not recorded",
    columns,
    ...(columns ? { chart: "loss" } : {}),
  };
}

function gradientCard(scalars: Scalars): Card {
  const columns = scalars.get("gradient_norm");
  const value = vitals.newest(columns);
  // The norm is that of the finite values: 0 when there is none.
  const broken = vitals.newest(scalars.get("nonfinite_gradients")) ?? 0;
  const largest = columns ? `largest ${formatNumber(vitals.greatest(columns), 3)}` : "not recorded";
  return {
    title: "Gradient norm",
    value: formatNumber(value),
    ...(broken > 0 || (value !== null && !Number.isFinite(value)) ? { tone: "bad" as const } : {}),
    facts: broken > 0 ? `finite values only; ${formatCount(broken)} are non-finite` : largest,
    columns,
    log: true,
    ...(columns ? { chart: "gradient_norm" } : {}),
  };
}

function nonFiniteCard(scalars: Scalars, run: RunRow): Card {
  const { steps, first } = vitals.nonFinite(scalars);
  if (!MAY_BE_BAD.some((name) => scalars.has(name)))
    return { title: "Steps with NaN or Inf", value: "–", facts: "not recorded" };
  const columns = scalars.get("nonfinite_gradients");
  const facts =
    first === null ? `of ${formatCount(run.steps)}` : `of ${formatCount(run.steps)}, from step ${formatCount(first)}`;
  return {
    title: "Steps with NaN or Inf",
    value: first === null ? "none" : formatCount(steps),
    tone: first === null ? "good" : "bad",
    facts,
    columns,
    ...(columns ? { chart: "nonfinite_gradients" } : {}),
  };
}

function stepTimeCard(scalars: Scalars): Card {
  const { seconds, split } = vitals.stepTime(scalars);
  const columns = scalars.get("time/step");
  return {
    title: "Step time",
    value: Number.isFinite(seconds) ? formatSeconds(seconds) : "–",
    facts: split.length > 0 ? <SplitBar split={split} /> : "not recorded",
    columns,
    ...(columns ? { chart: "time/step" } : {}),
  };
}

function throughputCard(scalars: Scalars): Card {
  const { samples, steps } = vitals.throughput(scalars);
  const known = Number.isFinite(samples);
  return {
    title: known ? "Samples per second" : "Steps per second",
    value: known || Number.isFinite(steps) ? formatShort(known ? samples : steps) : "–",
    facts: known
      ? `${formatNumber(steps, 3)} steps of ${formatCount(vitals.recentMean(scalars.get("batch_size")))}`
      : Number.isFinite(steps)
        ? "batch size not recorded"
        : "not recorded",
    columns: inverse(scalars.get("time/step")),
    ...(scalars.has("time/step") ? { chart: "time/step" } : {}),
  };
}

/** Steps per second instead of seconds per step. */
function inverse(columns: ScalarColumns | undefined): ScalarColumns | undefined {
  return columns && { ...columns, mean: columns.mean.map((value) => 1 / value) };
}

function memoryCard(scalars: Scalars): Card {
  const use = vitals.memoryUse(scalars);
  if (!use) return { title: "Memory", value: "–", facts: "not recorded" };
  const share = use.total ? `${formatPercent(use.bytes / use.total)} of ${formatBytes(use.total)} ` : "";
  return {
    title: "Memory",
    value: formatBytes(use.bytes),
    facts: share + use.what,
    columns: scalars.get(use.name),
    chart: use.name,
  };
}

function learningRateCard(scalars: Scalars): Card {
  const columns = scalars.get("lr/0");
  const most = vitals.greatest(columns);
  return {
    title: "Learning rate",
    value: formatNumber(vitals.newest(columns), 3),
    facts: columns ? `highest ${formatNumber(most, 3)}` : "not recorded",
    columns,
    ...(columns ? { chart: "lr/0" } : {}),
  };
}

function overheadCard(scalars: Scalars, details: RunDetails | null): Card {
  const columns = scalars.get("monitor/overhead");
  const recent = vitals.recentMean(columns);
  const share = Number.isFinite(recent) ? recent : (details?.overhead ?? null);
  const every = vitals.newest(scalars.get("monitor/every")) ?? details?.sampled_every ?? null;
  return {
    title: "Cost of monitoring",
    value: formatPercent(share),
    facts: every
      ? every > 1
        ? `all statistics every ${formatCount(every)} steps`
        : "all statistics at every step"
      : share === null
        ? "not recorded"
        : "of the step time",
    columns,
    ...(columns ? { chart: "monitor/overhead" } : {}),
  };
}
