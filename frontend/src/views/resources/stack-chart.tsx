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
import { drawAxes, line, placeX, type StackFrame, valueAtX } from "./stack-axes";
import {
  bulkOf,
  drawDrag,
  drawLayers,
  drawLimit,
  greatest,
  type StackLayer,
  shownValue,
  sumsOf,
  whole,
} from "./stack-paint";

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
  /** Rows before which nothing is known: nothing is drawn across. */
  readonly holes?: ReadonlySet<number>;
  readonly exportName: string;
  readonly height: number;
}

const NO_HOLES: ReadonlySet<number> = new Set();
/** Above it the layers would be flat: then the limit is said and not drawn. */
const FARTHEST_LIMIT = 4;
/** Few peaks that are so much higher than all others leave the picture, unless one wants to see them. */
const FARTHEST_PEAK = 2.5;
const HEADROOM = 1.3;

/** Parts that add up, over steps, time or samples. */
export function StackChart(props: StackChartProps): JSX.Element {
  const {
    title,
    x,
    layers,
    axis,
    formatY,
    yKind = "number",
    limit = null,
    isShare = false,
    holes = NO_HOLES,
    height,
  } = props;
  const drag = useSignal<readonly [number, number] | null>(null);
  const pointed = useSignal<{
    readonly row: number;
    readonly x: number;
    readonly y: number;
    readonly size: PlotSize;
  } | null>(null);
  const sums = useMemo(() => sumsOf(layers, x.length), [layers, x]);
  const isWhole = useSignal(false);
  const bulk = useMemo(() => bulkOf(sums), [sums]);
  const hides = !isShare && greatest(sums) > FARTHEST_PEAK * bulk;
  const reach = hides && !isWhole.value ? bulk * HEADROOM : greatest(sums);
  const drawnLimit = limit && limit.value <= FARTHEST_LIMIT * reach ? limit : null;
  const frameOf = (size: PlotSize): StackFrame => {
    const [from, to] = axis.zoom ?? whole(x);
    const high = isShare ? 1 : Math.max(reach, drawnLimit?.value ?? 0) * 1.04 || 1;
    return {
      left: Math.min(66, size.width * 0.2),
      top: 8,
      right: size.width - 8,
      bottom: size.height - 24,
      from,
      to,
      high,
    };
  };
  const colours = categorical(theme.value);
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, canvasHeight: number, palette: Palette) => {
      const frame = frameOf({ width, height: canvasHeight });
      drawAxes(context, frame, { ...axis, formatY, yKind }, palette);
      drawLayers(context, frame, { x, layers, isShare, holes }, sums, colours);
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
            <i style={{ background: colours[layer.colour] }} /> {layer.title}{" "}
            <strong>{formatY(shownValue(layer, row, sums, isShare))}</strong>
          </li>
        ))}
        {limit && (
          <li>
            <i class="stack-limit" /> {limit.title} <strong>{formatY(limit.value)}</strong>
          </li>
        )}
        {hides && (
          <li>
            <button
              type="button"
              class="tool"
              aria-pressed={isWhole.value}
              title="Extend the axis to show outliers"
              onClick={() => (isWhole.value = !isWhole.value)}
            >
              OUTLIERS
            </button>
          </li>
        )}
      </ul>
    </div>
  );
}

interface StackTooltipProps extends StackChartProps {
  readonly pointed: { readonly row: number; readonly x: number; readonly y: number; readonly size: PlotSize } | null;
  readonly sums: Float64Array;
}

function StackTooltip({
  pointed,
  layers,
  x,
  axis,
  formatY,
  isShare = false,
  sums,
}: StackTooltipProps): JSX.Element | null {
  if (!pointed) return null;
  const { row, size } = pointed;
  const place = axis.xKind === "elapsed" ? axis.formatX(x[row] ?? NaN) : formatCount(x[row]);
  const parts = [...layers]
    .reverse()
    .map((layer) => [layer.title, formatY(shownValue(layer, row, sums, isShare))] as const);
  const rows = [
    [axis.xLabel, place, "muted"] as const,
    ...parts,
    ...(isShare ? [] : [["together", formatY(sums[row] ?? NaN)] as const]),
  ];
  return (
    <Tooltip at={pointed} width={size.width} height={size.height}>
      <Facts rows={rows} />
    </Tooltip>
  );
}

function stackRows({ x, layers, axis }: StackChartProps): CsvRow[] {
  const header: CsvRow = [axis.xLabel, ...layers.map(({ title }) => title)];
  return [
    header,
    ...Array.from(
      x,
      (value, row): CsvRow => [
        value,
        ...layers.map(({ values }) => (Number.isFinite(values[row]) ? (values[row] ?? null) : null)),
      ],
    ),
  ];
}
