import { useSignal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback } from "preact/hooks";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import type { Gesture } from "../../lib/gestures";
import { columnAt, type StepWindow } from "../../lib/heat";
import type { ValueAxis } from "../../lib/value-axis";
import { drawFrame, drawSelection, drawStepAxis, drawStepLine, drawValueAxis, stepAt, stepX, type Frame } from "./axes";
import { Plot, type PlotSize } from "./plot";
import { wheelFactor, type StepMoves } from "./steps";
import { Facts, factsSentence, Tooltip, type FactsProps } from "./tooltip";

export interface StepChartProps {
  readonly window: StepWindow;
  readonly axis: ValueAxis;
  readonly moves: StepMoves;
  /** First steps of the samples, for the keys. */
  readonly samples: Float64Array;
  /** Draws the data; a new function means new data. */
  readonly paint: (context: CanvasRenderingContext2D, frame: Frame, palette: Palette) => void;
  /** What the tooltip says of the sample with this number. */
  readonly facts: (sample: number) => FactsProps["rows"];
  /** The step under the pointer, shared with other charts. */
  readonly step: Signal<number | null>;
  /** A step that was chosen; it is marked. */
  readonly chosen?: number | null;
  readonly onPick?: ((step: number) => void) | undefined;
  readonly label: string;
  readonly exportName: string;
  readonly csv: () => readonly CsvRow[];
  readonly height: number;
}

/** A chart of values over steps. */
export function StepChart(props: StepChartProps): JSX.Element {
  const { window, axis, moves, step, paint, chosen } = props;
  const drag = useSignal<readonly [from: number, to: number] | null>(null);
  const pointer = useSignal<{ x: number; y: number; size: PlotSize } | null>(null);
  const spoken = useSignal("");
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => {
      const frame = frameOf({ width, height });
      drawValueAxis(context, frame, axis, palette);
      paint(context, frame, palette);
      drawStepAxis(context, frame, window, palette);
      drawFrame(context, frame, palette);
    },
    [paint, axis, window.first, window.last],
  );
  const overlay = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => {
      const frame = frameOf({ width, height });
      if (chosen !== null && chosen !== undefined) markStep(context, frame, window, chosen, palette.accent, 2);
      if (drag.value) drawSelection(context, frame, drag.value[0], drag.value[1], palette);
      else if (step.value !== null) markStep(context, frame, window, step.value, palette.text, 1);
    },
    [window.first, window.last, chosen],
  );
  const gesture = (happened: Gesture, size: PlotSize): void => {
    const frame = frameOf(size);
    const at = (x: number): number => stepAt(frame, window, Math.min(Math.max(x, frame.left), frame.right - 0.01));
    if (happened.kind === "hover" || happened.kind === "click") {
      pointer.value = { ...happened.at, size };
      step.value = Math.floor(at(happened.at.x));
      if (happened.kind === "click") props.onPick?.(step.value);
    } else if (happened.kind === "dragging") drag.value = [happened.from.x, happened.to.x];
    else if (happened.kind === "dragged") {
      drag.value = null;
      moves.drag(at(happened.from.x), at(happened.to.x));
    } else if (happened.kind === "pinch") moves.zoom(at(happened.at.x), happened.factor);
    else drag.value = null;
  };
  const leave = (): void => {
    pointer.value = null;
    step.value = null;
  };
  return (
    <Plot
      draw={draw}
      overlay={overlay}
      height={props.height}
      label={props.label}
      exportName={props.exportName}
      csv={props.csv}
      onGesture={gesture}
      onLeave={leave}
      onReset={moves.reset}
      onKey={(event, size) => {
        if (!stepKey(event, props)) return false;
        const at = step.peek();
        const sample = at === null ? -1 : columnAt(props.samples, at);
        if (at !== null && sample >= 0) {
          const frame = frameOf(size);
          pointer.value = { x: stepX(frame, window, at + 0.5), y: (frame.top + frame.bottom) / 2, size };
          spoken.value = factsSentence(props.facts(sample));
        }
        return true;
      }}
      spoken={spoken}
      onWheel={(at, turned, across, size) => {
        if (across !== 0) moves.move(across / size.width);
        else moves.zoom(stepAt(frameOf(size), window, at.x), wheelFactor(turned));
      }}
    >
      <StepTooltip {...props} pointer={pointer} drag={drag} />
    </Plot>
  );
}

export function frameOf({ width, height }: PlotSize): Frame {
  return { left: Math.min(58, width * 0.2), top: 8, right: width - 6, bottom: height - 24 };
}

function markStep(
  context: CanvasRenderingContext2D,
  frame: Frame,
  window: StepWindow,
  step: number,
  colour: string,
  width: number,
): void {
  const x = stepX(frame, window, step + 0.5);
  if (x < frame.left || x > frame.right) return;
  for (let i = 0; i < width; i++) drawStepLine(context, frame, x + i, colour);
}

function stepKey(event: KeyboardEvent, { samples, step, moves, window, onPick }: StepChartProps): boolean {
  const now = columnAt(samples, step.peek() ?? window.last);
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by !== undefined) {
    const next = Math.min(Math.max(now + by * (event.shiftKey ? 10 : 1), 0), samples.length - 1);
    step.value = samples[next] ?? null;
  } else if (event.key === "Enter" && step.peek() !== null) onPick?.(step.peek() ?? 0);
  else if (event.key === "+" || event.key === "=") moves.zoom(step.peek() ?? window.last, 0.6);
  else if (event.key === "-") moves.zoom(step.peek() ?? window.last, 1 / 0.6);
  else if (event.key === "0") moves.reset();
  else return false;
  return true;
}

interface StepTooltipProps extends StepChartProps {
  readonly pointer: Signal<{ x: number; y: number; size: PlotSize } | null>;
  readonly drag: Signal<readonly [number, number] | null>;
}

function StepTooltip({ pointer, drag, step, samples, facts }: StepTooltipProps): JSX.Element | null {
  const at = pointer.value;
  const sample = step.value === null ? -1 : columnAt(samples, step.value);
  if (!at || drag.value || sample < 0) return null;
  return (
    <Tooltip at={at} width={at.size.width} height={at.size.height}>
      <Facts rows={facts(sample)} />
    </Tooltip>
  );
}
