import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { theme } from "../../app/state";
import { categorical } from "../../lib/colour";
import { formatPercent, formatSeconds } from "../../lib/format";
import {
  PHASE_NAMES,
  PHASE_TEXTS,
  type PhaseName,
  phaseShares,
  type PhaseSplit,
  phaseSplit,
  recentFrom,
} from "../../lib/phases";
import { holesIn } from "../../lib/phases-join";
import { axisProps, axisX, type RunScalars } from "./run-scalars";
import { StackChart } from "./stack-chart";
import type { StackLayer } from "./stack-paint";
import { Section } from "./tiles";

/** Places in the palette, the same as on the overview. */
export const PHASE_COLOURS: Readonly<Record<PhaseName, number>> = {
  data: 1,
  forward: 0,
  backward: 6,
  optimizer: 2,
  rest: 7,
};

/** What the time of a step is spent on, over time and now. */
export function StepTimeSection({ data }: { readonly data: RunScalars }): JSX.Element {
  const split = useMemo(() => phaseSplit(data.scalars), [data.scalars]);
  const isShare = useSignal(false);
  if (!split) return <NoTimes />;
  return (
    <Section title="Step time" reading={split.isKnown ? readingOf(split) : undefined}>
      {!split.isKnown && (
        <p class="muted">
          Only whole steps were timed: no forward pass with gradients was seen, as when the model is compiled before it
          is watched.
        </p>
      )}
      <div class="two-thirds">
        <div class="card page-card">
          <SplitChart split={split} data={data} isShare={isShare.value} />
          <div class="segments" role="radiogroup" aria-label="Unit">
            {[false, true].map((value) => (
              <button
                key={String(value)}
                type="button"
                role="radio"
                class="segment"
                aria-checked={isShare.value === value}
                onClick={() => (isShare.value = value)}
              >
                {value ? "Shares" : "Time"}
              </button>
            ))}
          </div>
        </div>
        <div class="card page-card">
          <CurrentSplit split={split} />
        </div>
      </div>
    </Section>
  );
}

function NoTimes(): JSX.Element {
  return (
    <Section title="Step time">
      <p class="card nothing">
        No step was timed in this range. Times are recorded automatically when <code>monitor.step()</code> is called at
        the end of each batch.
      </p>
    </Section>
  );
}

function readingOf(split: PhaseSplit): string {
  const shares = phaseShares(split, recentFrom(split.whole));
  const [largest = "rest"] = [...PHASE_NAMES].sort((a, b) => shares[b] - shares[a]);
  const names: Record<PhaseName, string> = {
    data: "waiting for data",
    forward: "the forward pass",
    backward: "loss and backward",
    optimizer: "the optimizer",
    rest: "work outside these phases",
  };
  return `${shares[largest] > 0.5 ? "Most" : "The largest part"} of a step, ${formatPercent(shares[largest])}, goes to ${names[largest]}.`;
}

interface SplitChartProps {
  readonly split: PhaseSplit;
  readonly data: RunScalars;
  readonly isShare: boolean;
}

function SplitChart({ split, data, isShare }: SplitChartProps): JSX.Element {
  const layers = useMemo(() => layersOf(split), [split]);
  const holes = useMemo(() => holesIn(split.whole), [split]);
  const axis = axisProps(data.all);
  const x = useMemo(() => axisX(split.whole, data.all), [split, data.all, axis.xLabel]);
  return (
    <StackChart
      title={isShare ? "Step time by phase, in shares" : "Step time by phase"}
      x={x}
      layers={layers}
      axis={axis}
      formatY={isShare ? formatPercent : formatSeconds}
      isShare={isShare}
      holes={holes}
      exportName="step-time"
      height={250}
    />
  );
}

function layersOf(split: PhaseSplit): StackLayer[] {
  const shown = PHASE_NAMES.filter((name) => split.seconds[name].some((value) => value > 0));
  return shown.map((name) => ({
    key: name,
    ...(split.isKnown ? PHASE_TEXTS[name] : { title: "Step", meaning: "the whole step" }),
    colour: split.isKnown ? PHASE_COLOURS[name] : 0,
    values: split.seconds[name],
  }));
}

/** The newest steps: each part as a bar, a share and a time. */
function CurrentSplit({ split }: { readonly split: PhaseSplit }): JSX.Element {
  const colours = categorical(theme.value);
  const from = recentFrom(split.whole);
  const shares = phaseShares(split, from);
  const seconds = meanOf(split, from);
  return (
    <>
      <h4>Latest steps</h4>
      <ul class="phase-list">
        {PHASE_NAMES.filter((name) => shares[name] > 0).map((name) => (
          <li key={name} title={PHASE_TEXTS[name].meaning}>
            <span>{PHASE_TEXTS[name].title}</span>
            <span class="muted">{formatSeconds(shares[name] * seconds)}</span>
            <strong>{formatPercent(shares[name])}</strong>
            <span class="phase-bar">
              <i style={{ width: `${shares[name] * 100}%`, background: colours[PHASE_COLOURS[name]] }} />
            </span>
          </li>
        ))}
        <li class="phase-sum">
          <span>One step</span>
          <span class="muted" />
          <strong>{formatSeconds(seconds)}</strong>
        </li>
      </ul>
      <p class="faint phase-note">Measured on the host: GPU work counts where the host waits for it.</p>
    </>
  );
}

function meanOf(split: PhaseSplit, from: number): number {
  let [sum, weight] = [0, 0];
  for (let row = from; row < split.whole.mean.length; row++) {
    const [mean, count] = [split.whole.mean[row] ?? NaN, split.whole.count[row] ?? 1];
    if (Number.isFinite(mean)) [sum, weight] = [sum + mean * count, weight + count];
  }
  return weight > 0 ? sum / weight : NaN;
}
