import type { JSX } from "preact";
import { theme } from "../../app/state";
import { formatCount } from "../../lib/format";
import type { Histogram, RunRow } from "../../wire/types";
import { stepsText } from "../layers/heat-cell";
import { setAgainst, type Against, type HistogramChoices } from "./choices";
import { colourOfSide } from "./histogram-picture";
import type { SampleSteps } from "./samples";

export interface CompareChoiceProps {
  readonly run: RunRow;
  /** The other runs that are drawn. */
  readonly others: readonly RunRow[];
  readonly choices: HistogramChoices;
  readonly samples: SampleSteps;
}

const SAME_RUN = "same";
const NOTHING = "nothing";

/** What the histogram is compared with: another step of the run, or another run. */
export function CompareChoice({ run, others, choices, samples }: CompareChoiceProps): JSX.Element {
  const { against } = choices;
  const value = against === null ? NOTHING : against.run === null ? SAME_RUN : `run ${against.run}`;
  const choose = (next: string): void => {
    if (next === NOTHING) setAgainst(null);
    else if (next === SAME_RUN) setAgainst({ run: null, step: against?.step ?? samples[0] ?? 0 });
    else setAgainst({ run: next.slice(4), step: null });
  };
  const gone =
    against?.run !== null && against?.run !== undefined && !others.some((other) => other.name === against.run);
  return (
    <span class="compare-choice">
      <label class="setting">
        Compare with
        <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
          <option value={NOTHING}>nothing</option>
          <option value={SAME_RUN}>another step</option>
          {[...others.map((other) => other.name), ...(gone ? [against.run ?? ""] : [])].map((name) => (
            <option key={name} value={`run ${name}`}>
              {name.slice(0, 80)}
            </option>
          ))}
        </select>
      </label>
      {against && <StepChoice against={against} last={run.last_step ?? 0} />}
    </span>
  );
}

export interface SidesProps {
  readonly run: RunRow;
  readonly against: Against;
  readonly a: Histogram | null;
  readonly b: Histogram | null;
}

/** What is compared, in the colours of the picture. */
export function Sides({ run, against, a, b }: SidesProps): JSX.Element {
  return (
    <p class="compare-sides">
      <Side which={0} run={run.name} histogram={a} />
      <Side which={1} run={against.run ?? run.name} histogram={b} />
    </p>
  );
}

function StepChoice({ against, last }: { readonly against: Against; readonly last: number }): JSX.Element {
  return (
    <label class="setting">
      at step
      <input
        type="number"
        class="step-input"
        min="0"
        max={against.run === null ? last : undefined}
        placeholder={against.run === null ? "" : "same"}
        value={against.step ?? ""}
        onChange={(event) => {
          const step = event.currentTarget.valueAsNumber;
          if (Number.isFinite(step)) setAgainst({ run: against.run, step: Math.round(step) });
          else if (against.run !== null) setAgainst({ run: against.run, step: null });
        }}
      />
    </label>
  );
}

interface SideProps {
  readonly which: number;
  readonly run: string;
  readonly histogram: Histogram | null;
}

function Side({ which, run, histogram }: SideProps): JSX.Element {
  return (
    <span class="compare-side">
      <i style={{ background: colourOfSide(which, theme.value) }} />
      <b>{"AB"[which]}</b>
      <bdi class="compare-run">{run}</bdi>
      {histogram ? `step ${stepsText(histogram.first, histogram.last)}` : "no sample"}
      {histogram && histogram.merged > 1 ? ` (${formatCount(histogram.merged)} samples)` : ""}
    </span>
  );
}
