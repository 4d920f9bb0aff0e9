import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import { theme } from "../../app/state";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import { categorical } from "../../lib/colour";
import type { Extent } from "../../lib/extent";
import { formatCount } from "../../lib/format";
import type { Gesture } from "../../lib/gestures";
import { nearestIndex } from "../../lib/nearest";
import { Plot, type PlotSize } from "../layers/plot";
import { Facts, Tooltip } from "../layers/tooltip";
import type { AxisProps } from "./run-scalars";
import { drawAxes, line, placeX, placeY, type StackFrame, valueAtX } from "./stack-axes";

export interface StackLayer {
  readonly key: string;
  readonly title: string;
  readonly meaning: string;
  /** Place in the palette of categories. */
  readonly colour: number;
  readonly values: Float64Array;
}

export interface StackChartProps {
  readonly title: string;
  /** Ascending. */
  readonly x: Float64Array;
  /** From the bottom up. */
  readonly layers: readonly StackLayer[];
  readonly axis: AxisProps;
  readonly formatY: (value: number) => string;
  readonly yKind?: "number" | "bytes";
  /** A line above the layers: what there is at most. */
  readonly limit?: { readonly value: number; readonly title: string } | null;
  /** Each column as parts of 1. */
  readonly isShare?: boolean;
  readonly exportName: string;
  readonly height: number;
}

/** Above it the layers would be flat: then the limit is said and not drawn. */
const FARTHEST_LIMIT = 4;
/** Few peaks that are so much higher than all others leave the picture, unless one wants to see them. */
const FARTHEST_PEAK = 2.5;
const FEW = 0.03;
const HEADROOM = 1.3;

/** Parts that add up, over steps, time or samples. */
export function StackChart(props: StackChartProps): JSX.Element {
  const { title, x, layers, axis, formatY, yKind = "number", limit = null, isShare = false, height } = props;
  const drag = useSignal<readonly [number, number] | null>(null);
  const pointed = useSignal<{ readonly row: number; readonly x: number; readonly y: number; readonly size: PlotSize } | null>(null);
  const sums = useMemo(() => sumsOf(layers, x.length), [layers, x]);
  const isWhole = useSignal(false);
  const bulk = useMemo(() => bulkOf(sums), [sums]);
  const hides = !isShare && greatest(sums) > FARTHEST_PEAK * bulk;
  const reach = hides && !isWhole.value ? bulk * HEADROOM : greatest(sums);
  const drawnLimit = limit && limit.value <= FARTHEST_LIMIT * reach ? limit : null;
  const frameOf = (size: PlotSize): StackFrame => {
    const [from, to] = axis.zoom ?? whole(x);
    const high = isShare ? 1 : Math.max(reach, drawnLimit?.value ?? 0) * 1.04 || 1;
    return { left: Math.min(66, size.width * 0.2), top: 8, right: size.width - 8, bottom: size.height - 24, from, to, high };
  };
  const colours = categorical(theme.value);
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, canvasHeight: number, palette: Palette) => {
      const frame = frameOf({ width, height: canvasHeight });
      drawAxes(context, frame, { ...axis, formatY, yKind }, palette);
      drawLayers(context, frame, props, sums, colours);
      if (drawnLimit) drawLimit(context, frame, drawnLimit, formatY, palette);
    },
    [x, layers, axis.xKind, axis.zoom?.[0], axis.zoom?.[1], drawnLimit?.value, reach, isShare, colours],
  );
  const overlay = useCallback(
    (context: CanvasRenderingContext2D, width: number, canvasHeight: number, palette: Palette) => {
      const frame = frameOf({ width, height: canvasHeight });
      if (drag.value) drawDrag(context, frame, drag.value, palette);
      else if (pointed.value) {
        context.strokeStyle = palette.faint;
        const at = Math.round(placeX(frame, x[pointed.value.row] ?? 0)) + 0.5;
        line(context, at, frame.top, at, frame.bottom);
      }
    },
    [x, axis.zoom?.[0], axis.zoom?.[1]],
  );
  const zoomAround = (pixel: number, factor: number, size: PlotSize): void => {
    const frame = frameOf(size);
    const at = valueAtX(frame, pixel);
    const [low, high] = whole(x);
    const zoom: Extent = [at - (at - frame.from) * factor, at + (frame.to - at) * factor];
    axis.onZoom(axis.zoom === null && zoom[0] <= low && zoom[1] >= high ? null : zoom);
  };
  const gesture = (happened: Gesture, size: PlotSize): void => {
    const frame = frameOf(size);
    if (happened.kind === "hover" || happened.kind === "click") {
      const row = nearestIndex(x, valueAtX(frame, happened.at.x));
      pointed.value = row < 0 ? null : { row, ...happened.at, size };
    } else if (happened.kind === "dragging") drag.value = [happened.from.x, happened.to.x];
    else if (happened.kind === "dragged") {
      drag.value = null;
      const [a, b] = [valueAtX(frame, happened.from.x), valueAtX(frame, happened.to.x)];
      if (a !== b) axis.onZoom([Math.min(a, b), Math.max(a, b)]);
    } else if (happened.kind === "pinch") zoomAround(happened.at.x, happened.factor, size);
    else drag.value = null;
  };
  const key = (event: KeyboardEvent): boolean => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return false;
    const size = pointed.peek()?.size ?? { width: 600, height };
    const row = Math.min(Math.max((pointed.peek()?.row ?? x.length) + by * (event.shiftKey ? 10 : 1), 0), x.length - 1);
    pointed.value = { row, x: placeX(frameOf(size), x[row] ?? 0), y: 20, size };
    return true;
  };
  const row = pointed.value?.row ?? x.length - 1;
  return (
    <div class="stack-chart">
      <div class="chart-head">
        <h4 class="chart-title">{title}</h4>
      </div>
      <Plot
        draw={draw}
        overlay={overlay}
        height={height}
        label={`${title}: ${layers.map((layer) => `${layer.title} ${formatY(layer.values.at(-1) ?? NaN)}`).join(", ")}. Arrow keys move from point to point.`}
        exportName={props.exportName}
        csv={() => stackRows(props)}
        onGesture={gesture}
        onLeave={() => (pointed.value = null)}
        onReset={() => axis.onZoom(null)}
        onKey={key}
        onWheel={(at, turned, _, size) => zoomAround(at.x, Math.exp(turned * 0.004), size)}
      >
        <StackTooltip {...props} pointed={pointed.value && !drag.value ? pointed.value : null} sums={sums} />
      </Plot>
      <ul class="stack-legend">
        {[...layers].reverse().map((layer) => (
          <li key={layer.key} title={layer.meaning}>
            <i style={{ background: colours[layer.colour] }} /> {layer.title} <strong>{formatY(valueOf(layer, row, sums, isShare))}</strong>
          </li>
        ))}
        {limit && (
          <li>
            <i class="stack-limit" /> {limit.title} <strong>{formatY(limit.value)}</strong>
          </li>
        )}
        {hides && (
          <li>
            <button type="button" class="tool" aria-pressed={isWhole.value} title="Show even the few points far beyond all others" onClick={() => (isWhole.value = !isWhole.value)}>
              OUTLIERS
            </button>
          </li>
        )}
      </ul>
    </div>
  );
}

function sumsOf(layers: readonly StackLayer[], length: number): Float64Array {
  return Float64Array.from({ length }, (_, row) => layers.reduce((sum, { values }) => sum + known(values[row]), 0));
}

function known(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) ? value : 0;
}

function valueOf(layer: StackLayer, row: number, sums: Float64Array, isShare: boolean): number {
  const value = layer.values[row] ?? NaN;
  return isShare ? value / (sums[row] ?? NaN) : value;
}

/** What all but few do not exceed. */
function bulkOf(sums: Float64Array): number {
  const sorted = sums.slice().sort();
  return sorted[Math.floor((sorted.length - 1) * (1 - FEW))] ?? 0;
}

function greatest(values: Float64Array): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function whole(x: Float64Array): Extent {
  const [first, last] = [x[0] ?? 0, x.at(-1) ?? 1];
  return last > first ? [first, last] : [first - 0.5, first + 0.5];
}

function drawLayers(context: CanvasRenderingContext2D, frame: StackFrame, { x, layers, isShare }: StackChartProps, sums: Float64Array, colours: readonly string[]): void {
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  context.clip();
  const below = new Float64Array(x.length);
  // A single point is drawn as wide as the picture: there is nothing else in it.
  const at = (row: number, side: number): number => (x.length === 1 ? (side < 0 ? frame.left : frame.right) : placeX(frame, x[row] ?? 0));
  for (const { values, colour } of layers) {
    const unit = (row: number): number => (isShare ? (sums[row] ?? 0) || 1 : 1);
    const top = below.map((height, row) => height + known(values[row]) / unit(row));
    context.fillStyle = colours[colour % colours.length] ?? "";
    context.globalAlpha = 0.82;
    context.beginPath();
    for (let row = 0; row < x.length; row++) {
      context.lineTo(at(row, -1), placeY(frame, top[row] ?? 0));
      if (x.length === 1) context.lineTo(at(row, 1), placeY(frame, top[row] ?? 0));
    }
    for (let row = x.length - 1; row >= 0; row--) {
      if (x.length === 1) context.lineTo(at(row, 1), placeY(frame, below[row] ?? 0));
      context.lineTo(at(row, -1), placeY(frame, below[row] ?? 0));
    }
    context.fill();
    below.set(top);
  }
  context.restore();
}

function drawLimit(context: CanvasRenderingContext2D, frame: StackFrame, limit: { value: number; title: string }, formatY: (value: number) => string, palette: Palette): void {
  const y = Math.round(placeY(frame, limit.value)) + 0.5;
  context.strokeStyle = palette.bad;
  context.setLineDash([5, 4]);
  line(context, frame.left, y, frame.right, y);
  context.setLineDash([]);
  context.textAlign = "right";
  context.textBaseline = "top";
  context.fillStyle = palette.bad;
  context.fillText(`${limit.title} ${formatY(limit.value)}`, frame.right - 4, y + 3);
}

function drawDrag(context: CanvasRenderingContext2D, frame: StackFrame, [a, b]: readonly [number, number], palette: Palette): void {
  const hold = (x: number): number => Math.min(Math.max(x, frame.left), frame.right);
  const [left, right] = [hold(Math.min(a, b)), hold(Math.max(a, b))];
  context.globalAlpha = 0.2;
  context.fillStyle = palette.accent;
  context.fillRect(left, frame.top, right - left, frame.bottom - frame.top);
  context.globalAlpha = 1;
}

interface StackTooltipProps extends StackChartProps {
  readonly pointed: { readonly row: number; readonly x: number; readonly y: number; readonly size: PlotSize } | null;
  readonly sums: Float64Array;
}

function StackTooltip({ pointed, layers, x, axis, formatY, isShare = false, sums }: StackTooltipProps): JSX.Element | null {
  if (!pointed) return null;
  const { row, size } = pointed;
  const place = axis.xKind === "elapsed" ? axis.formatX(x[row] ?? NaN) : formatCount(x[row]);
  const parts = [...layers].reverse().map((layer) => [layer.title, formatY(valueOf(layer, row, sums, isShare))] as const);
  const rows = [[axis.xLabel, place, "muted"] as const, ...parts, ...(isShare ? [] : [["together", formatY(sums[row] ?? NaN)] as const])];
  return (
    <Tooltip at={pointed} width={size.width} height={size.height}>
      <Facts rows={rows} />
    </Tooltip>
  );
}

function stackRows({ x, layers, axis }: StackChartProps): CsvRow[] {
  const header: CsvRow = [axis.xLabel, ...layers.map(({ title }) => title)];
  return [header, ...Array.from(x, (value, row): CsvRow => [value, ...layers.map(({ values }) => (Number.isFinite(values[row]) ? (values[row] ?? null) : null))])];
}
