import { useSignal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { Palette } from "../../charts/palette";
import type { Gesture, Point } from "../../lib/gestures";
import { barsOf, cellAt, type Histogram as Shape } from "../../lib/histogram-shape";
import { valueAxis, type ValueAxis } from "../../lib/value-axis";
import { drawSelection } from "../layers/axes";
import { Plot, type PlotSize } from "../layers/plot";
import { wheelFactor } from "../layers/steps";
import { Facts, factsSentence, Tooltip } from "../layers/tooltip";
import { barFacts, binRows } from "./histogram-facts";
import { cellSpan, drawHistogram, histogramFrames, type HistogramScene } from "./histogram-picture";

export interface HistogramChartProps {
  /** One, or two to compare. */
  readonly histograms: readonly Shape[];
  readonly axis: ValueAxis;
  readonly mode: "density" | "count";
  readonly log: boolean;
  readonly label: string;
  readonly exportName: string;
  readonly height: number;
}

/** Bars on the exact bins of the sketch. A drag or the wheel zooms along the values. */
export function HistogramChart(props: HistogramChartProps): JSX.Element {
  const { histograms, mode, log } = props;
  const two = histograms.length > 1;
  const zoom = useSignal<readonly [low: number, high: number] | null>(null);
  const cell = useSignal(-1);
  const pointer = useSignal<(Point & { size: PlotSize }) | null>(null);
  const drag = useSignal<readonly [from: number, to: number] | null>(null);
  const spoken = useSignal("");
  const axis = useMemo(
    () => (zoom.value ? valueAxis(props.axis.scale, zoom.value[0], zoom.value[1], props.axis.threshold) : props.axis),
    [props.axis, zoom.value],
  );
  const scenes = useMemo(() => sceneMaker(props, axis), [histograms, axis, mode, log]);
  const frames = (size: PlotSize): ReturnType<typeof histogramFrames> => histogramFrames(size.width, size.height, two);
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) =>
      drawHistogram(context, width, height, scenes(width, height), palette),
    [scenes],
  );
  const overlay = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => {
      const { main, difference } = histogramFrames(width, height, two);
      const whole = { ...main, bottom: difference?.bottom ?? main.bottom };
      if (drag.value) return drawSelection(context, whole, drag.value[0], drag.value[1], palette);
      if (cell.value < 0) return;
      const span = cellSpan(main, scenes(width, height), cell.value);
      context.globalAlpha = 0.14;
      context.fillStyle = palette.text;
      context.fillRect(span.left, whole.top, Math.max(span.width, 2), whole.bottom - whole.top);
      context.globalAlpha = 1;
    },
    [scenes],
  );
  const valueAt = (x: number, size: PlotSize): number => {
    const { left, right } = frames(size).main;
    return axis.valueAt(Math.min(1, Math.max(0, (x - left) / (right - left))));
  };
  const gesture = (happened: Gesture, size: PlotSize): void => {
    if (happened.kind === "hover" || happened.kind === "click") {
      const { main } = frames(size);
      pointer.value = { ...happened.at, size };
      cell.value = cellAt(scenes(size.width, size.height).bars.cells, happened.at.x - main.left, 4);
    } else if (happened.kind === "dragging") drag.value = [happened.from.x, happened.to.x];
    else if (happened.kind === "dragged") {
      drag.value = null;
      const [low, high] = [happened.from.x, happened.to.x].map((x) => valueAt(x, size)).sort((a, b) => a - b);
      if (low !== undefined && high !== undefined && high > low) zoom.value = [low, high];
    } else if (happened.kind === "pinch")
      zoom.value = zoomedValues(axis, place(happened.at.x, size), happened.factor, props.axis);
    else drag.value = null;
  };
  const place = (x: number, size: PlotSize): number => {
    const { left, right } = frames(size).main;
    return (x - left) / (right - left);
  };
  const key = (event: KeyboardEvent, size: PlotSize): boolean => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "0") zoom.value = null;
    if (by === undefined) return event.key === "0";
    const scene = scenes(size.width, size.height);
    const next = Math.min(Math.max(cell.peek() + by, 0), scene.bars.cells.left.length - 1);
    const { main } = frames(size);
    cell.value = next;
    pointer.value = { x: cellSpan(main, scene, next).left, y: (main.top + main.bottom) / 2, size };
    spoken.value = factsSentence(barFacts(scene, next));
    return true;
  };
  return (
    <Plot
      draw={draw}
      overlay={overlay}
      height={props.height}
      label={props.label}
      exportName={props.exportName}
      csv={() => binRows(histograms)}
      onGesture={gesture}
      onLeave={() => {
        cell.value = -1;
        pointer.value = null;
      }}
      onReset={() => (zoom.value = null)}
      onKey={key}
      spoken={spoken}
      onWheel={(at, turned, _across, size) =>
        (zoom.value = zoomedValues(axis, place(at.x, size), wheelFactor(turned), props.axis))
      }
    >
      <BarTooltip cell={cell} pointer={pointer} hidden={drag.value !== null} scenes={scenes} />
    </Plot>
  );
}

/** Zoomed as seen on the screen, whatever the axis; null when everything is in sight again. */
function zoomedValues(
  axis: ValueAxis,
  centre: number,
  factor: number,
  whole: ValueAxis,
): readonly [number, number] | null {
  const [low, high] = [axis.valueAt(centre - centre * factor), axis.valueAt(centre + (1 - centre) * factor)];
  if (low <= whole.low && high >= whole.high) return null;
  const kept = [Math.max(low, whole.low), Math.min(high, whole.high)] as const;
  return kept[1] > kept[0] ? kept : null;
}

type SceneMaker = (width: number, height: number) => HistogramScene;

/** Bars depend on how many pixels there are; they are made once for a width. */
function sceneMaker({ histograms, mode, log }: HistogramChartProps, axis: ValueAxis): SceneMaker {
  let made: HistogramScene | null = null;
  return (canvasWidth, canvasHeight) => {
    const { main } = histogramFrames(canvasWidth, canvasHeight, histograms.length > 1);
    const width = Math.max(1, Math.round(main.right - main.left));
    const shown = mode === "count" && histograms.length > 1 ? "share" : mode;
    if (made?.width !== width) made = { bars: barsOf(histograms, axis, width), axis, mode: shown, log, width };
    return made;
  };
}

interface BarTooltipProps {
  readonly cell: Signal<number>;
  readonly pointer: Signal<(Point & { size: PlotSize }) | null>;
  readonly hidden: boolean;
  readonly scenes: SceneMaker;
}

function BarTooltip({ cell, pointer, hidden, scenes }: BarTooltipProps): JSX.Element | null {
  const at = pointer.value;
  if (!at || hidden || cell.value < 0) return null;
  return (
    <Tooltip at={at} width={at.size.width} height={at.size.height}>
      <Facts rows={barFacts(scenes(at.size.width, at.size.height), cell.value)} />
    </Tooltip>
  );
}
