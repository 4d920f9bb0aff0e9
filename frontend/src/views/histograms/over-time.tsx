import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { setParam } from "../../app/state";
import type { ValueAxis, ValueScale } from "../../lib/value-axis";
import type { HistogramsAnswer, RunRow } from "../../wire/types";
import { DensityChart } from "../layers/density-chart";
import { Segments } from "../layers/segments";
import { boundsOf, shownWindow, stepMoves } from "../layers/steps";
import type { HistogramChoices } from "./choices";
import { RidgeChart } from "./ridge-chart";

export interface OverTimeProps {
  readonly answer: HistogramsAnswer;
  readonly axis: ValueAxis | null;
  readonly scale: ValueScale;
  readonly choices: HistogramChoices;
  readonly run: RunRow;
  readonly chosen: number | null;
  readonly name: string;
  readonly file: string;
  readonly onPick: (step: number) => void;
}

const HEIGHT = 430;

/** All histograms of the tensor; a click chooses the one that is shown large. */
export function OverTime(props: OverTimeProps): JSX.Element {
  const { answer, axis, choices } = props;
  return (
    <div class="over-time">
      <div class="over-time-head">
        <h3>
          Over time <span class="faint">click a step</span>
        </h3>
        <Segments
          options={[
            { value: "ridges", label: "ridges" },
            {
              value: "heat",
              label: "heat map",
              hint: "Steps from left to right, values from bottom to top; the colour shows how many",
            },
          ]}
          value={choices.overTime}
          onChange={(next) => setParam("histograms.time", next === "heat" ? "heat" : null)}
          label="Histograms over time as"
        />
      </div>
      {choices.overTime === "heat" ? (
        <Heat {...props} />
      ) : axis ? (
        <RidgeChart
          answer={answer}
          axis={axis}
          chosen={props.chosen}
          onPick={props.onPick}
          name={props.name}
          exportName={`${props.file}-ridges`}
          height={HEIGHT}
        />
      ) : (
        <p class="hint">All values are exactly zero.</p>
      )}
    </div>
  );
}

function Heat({ answer, scale, run, chosen, onPick, name, file }: OverTimeProps): JSX.Element | null {
  const step = useSignal<number | null>(null);
  const bounds = boundsOf(run);
  const window = shownWindow(answer.first, answer.last, bounds);
  if (!window || !bounds) return null;
  return (
    <DensityChart
      answer={answer}
      window={window}
      scale={scale}
      moves={stepMoves(window, bounds)}
      step={step}
      chosen={chosen}
      onPick={onPick}
      name={name}
      exportName={`${file}-over-time`}
      height={HEIGHT}
    />
  );
}
