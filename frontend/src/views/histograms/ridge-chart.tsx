import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { Palette } from "../../charts/palette";
import { formatCount, formatNumber } from "../../lib/format";
import type { Gesture, Point } from "../../lib/gestures";
import { columnAt } from "../../lib/heat";
import { quantilesOf } from "../../lib/quantiles";
import { binsAt } from "../../lib/ridge";
import type { ValueAxis } from "../../lib/value-axis";
import type { HistogramsAnswer } from "../../wire/types";
import { histogramRows } from "../layers/density-chart";
import { stepsText } from "../layers/heat-cell";
import { Plot, type PlotSize } from "../layers/plot";
import { Facts, factsSentence, Tooltip, type FactsProps } from "../layers/tooltip";
import { drawRidge, drawRidges, ridgeAt, ridgeFrame, ridgeScene, type RidgeScene } from "./ridge-picture";

export interface RidgeChartProps {
  readonly answer: HistogramsAnswer;
  readonly axis: ValueAxis;
  /** The step that is shown large. */
  readonly chosen: number | null;
  readonly onPick: (step: number) => void;
  readonly name: string;
  readonly exportName: string;
  readonly height: number;
}

/** Histograms over time, one ridge each; a click chooses its step. */
export function RidgeChart(props: RidgeChartProps): JSX.Element {
  const { answer, axis, chosen } = props;
  const hovered = useSignal<(Point & { index: number; size: PlotSize }) | null>(null);
  const spoken = useSignal("");
  const sceneOf = useMemo(() => sceneMaker(answer, axis), [answer, axis]);
  const shown = chosen === null ? answer.first.length - 1 : columnAt(answer.first, chosen);
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) =>
      drawRidges(context, width, height, sceneOf(width), palette),
    [sceneOf],
  );
  const overlay = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => {
      const frame = ridgeFrame(width, height);
      const scene = sceneOf(width);
      drawRidge(context, frame, scene, shown, palette.accent, palette.surface, 1);
      if (hovered.value && hovered.value.index !== shown) {
        drawRidge(context, frame, scene, hovered.value.index, palette.text, palette.surface, 1);
      }
    },
    [sceneOf, shown],
  );
  const gesture = (happened: Gesture, size: PlotSize): void => {
    if (happened.kind !== "hover" && happened.kind !== "click") return;
    const index = ridgeAt(ridgeFrame(size.width, size.height), sceneOf(size.width), happened.at.y);
    hovered.value = index < 0 ? null : { ...happened.at, index, size };
    if (happened.kind === "click" && index >= 0) props.onPick(answer.last[index] ?? 0);
  };
  const key = (event: KeyboardEvent): boolean => {
    const by = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = by === undefined ? undefined : answer.last[shown + by];
    if (next === undefined) return false;
    props.onPick(next);
    spoken.value = factsSentence(ridgeFacts(answer, shown + (by ?? 0)));
    return true;
  };
  return (
    <Plot
      draw={draw}
      overlay={overlay}
      height={props.height}
      label={`Histograms of ${props.name} over time, one ridge each. Arrow keys choose the step.`}
      exportName={props.exportName}
      csv={() => histogramRows(answer)}
      onGesture={gesture}
      onLeave={() => (hovered.value = null)}
      onReset={() => undefined}
      onKey={key}
      spoken={spoken}
      onWheel={() => undefined}
    >
      {hovered.value && (
        <Tooltip at={hovered.value} width={hovered.value.size.width} height={hovered.value.size.height}>
          <Facts rows={ridgeFacts(answer, hovered.value.index)} />
        </Tooltip>
      )}
    </Plot>
  );
}

function sceneMaker(answer: HistogramsAnswer, axis: ValueAxis): (width: number) => RidgeScene {
  let made: RidgeScene | null = null;
  return (canvasWidth) => {
    const frame = ridgeFrame(canvasWidth, 300);
    const width = Math.max(1, Math.round(frame.right - frame.left));
    if (made?.width !== width) made = ridgeScene(answer, answer.last, axis, width);
    return made;
  };
}

function ridgeFacts(answer: HistogramsAnswer, index: number): FactsProps["rows"] {
  const [low, median, high] = quantilesOf(binsAt(answer, index), [0.05, 0.5, 0.95]);
  const rows: [string, string, ("bad" | "muted")?][] = [
    ["step", stepsText(answer.first[index] ?? 0, answer.last[index] ?? 0)],
    ["median", formatNumber(median, 3)],
    ["5 – 95 %", `${formatNumber(low, 3)} … ${formatNumber(high, 3)}`],
  ];
  const bad = answer.nonfinite[index] ?? 0;
  if (bad > 0) rows.push(["not finite", formatCount(bad), "bad"]);
  return rows;
}
