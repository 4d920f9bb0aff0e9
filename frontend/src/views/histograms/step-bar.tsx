import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Icon } from "../../app/icons";
import { formatCount } from "../../lib/format";
import { setStep, type HistogramChoices } from "./choices";
import { neighbour, sampleAt, type SampleSteps } from "./samples";

export interface StepBarProps {
  readonly choices: HistogramChoices;
  readonly samples: SampleSteps;
  /** Whether the histogram that was asked for has come: playing waits for it. */
  readonly ready: boolean;
}

const FRAME_MILLISECONDS = 120;

/** Which sample is shown: the newest, one by its step, or a range of them merged. */
export function StepBar({ choices, samples, ready }: StepBarProps): JSX.Element {
  const playing = useSignal(false);
  const { step, to } = choices;
  const isRange = to !== null;
  const go = (by: number): void => setStep(neighbour(samples, step, by));
  useEffect(() => {
    if (!playing.value || !ready) return undefined;
    if (step === null && samples.length > 0) {
      playing.value = false;
      return undefined;
    }
    const timer = setTimeout(() => go(1), FRAME_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [playing.value, ready, step, samples]);
  const newest = samples.at(-1) ?? 0;
  const first = (next: number | null): void => {
    if (isRange) setStep(next ?? newest, Math.max(to, next ?? newest));
    else setStep(next);
  };
  const last = (next: number | null): void => setStep(Math.min(step ?? 0, next ?? newest), next ?? newest);
  const play = (): void => {
    if (!playing.value && step === null) setStep(samples[0] ?? null);
    playing.value = !playing.value;
  };
  const fixed = samples.length < 2 || isRange;
  return (
    <div class="step-bar" role="group" aria-label="Step shown">
      <button type="button" class="button icon-button" disabled={fixed} title="Previous sample" onClick={() => go(-1)}>
        <span class="mirrored">
          <Icon name="chevron" />
        </span>
        <span class="unseen">Previous sample</span>
      </button>
      <button
        type="button"
        class="button icon-button"
        disabled={fixed}
        aria-pressed={playing.value}
        title="Play from step to step"
        onClick={play}
      >
        <Icon name={playing.value ? "pause" : "play"} />
        <span class="unseen">Play</span>
      </button>
      <button type="button" class="button icon-button" disabled={fixed} title="Next sample" onClick={() => go(1)}>
        <Icon name="chevron" />
        <span class="unseen">Next sample</span>
      </button>
      <Slider label={isRange ? "First step" : "Step"} samples={samples} step={step} onStep={first} />
      {isRange && <Slider label="Last step" samples={samples} step={to} onStep={last} />}
      <label class="setting">
        Step
        <StepInput step={step ?? newest} onStep={first} />
      </label>
      {isRange && (
        <label class="setting">
          to
          <StepInput step={to} onStep={last} />
        </label>
      )}
      <RangeSwitch choices={choices} samples={samples} />
      <button
        type="button"
        class="button"
        aria-pressed={step === null && !isRange}
        title="Show each new sample as it arrives"
        onClick={() => setStep(null)}
      >
        Newest
      </button>
    </div>
  );
}

function RangeSwitch({ choices, samples }: Pick<StepBarProps, "choices" | "samples">): JSX.Element {
  const isRange = choices.to !== null;
  const toggle = (): void => {
    if (isRange) setStep(choices.step);
    else setStep(choices.step ?? samples[0] ?? 0, samples.at(-1) ?? 0);
  };
  return (
    <label class="setting" title="Merge the samples of several steps">
      <input type="checkbox" checked={isRange} disabled={samples.length < 2} onChange={toggle} />
      Merge range
    </label>
  );
}

interface SliderProps {
  readonly label: string;
  readonly samples: SampleSteps;
  readonly step: number | null;
  readonly onStep: (step: number | null) => void;
}

/** Over samples, not steps: each notch is a histogram. At its end it follows what comes. */
function Slider({ label, samples, step, onStep }: SliderProps): JSX.Element {
  const last = Math.max(0, samples.length - 1);
  const index = Math.max(0, sampleAt(samples, step));
  return (
    <input
      type="range"
      class="step-slider"
      aria-label={label}
      aria-valuetext={`Step ${formatCount(samples[index] ?? 0)}`}
      min="0"
      max={last}
      value={index}
      disabled={samples.length < 2}
      onInput={(event) => {
        const chosen = Number(event.currentTarget.value);
        onStep(chosen >= last ? null : (samples[chosen] ?? null));
      }}
    />
  );
}

function StepInput({ step, onStep }: { readonly step: number; readonly onStep: (step: number) => void }): JSX.Element {
  // What is being typed survives that newer steps come.
  const typed = useSignal<string | null>(null);
  return (
    <input
      type="number"
      class="step-input"
      value={typed.value ?? step}
      onInput={(event) => (typed.value = event.currentTarget.value)}
      onBlur={() => (typed.value = null)}
      onChange={(event) => {
        typed.value = null;
        const wanted = event.currentTarget.valueAsNumber;
        if (Number.isFinite(wanted)) onStep(Math.round(wanted));
      }}
    />
  );
}
