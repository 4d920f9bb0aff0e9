import type { Palette } from "../../charts/palette";
import type { Extent } from "../../lib/extent";
import { line, placeX, placeY, type StackFrame } from "./stack-axes";

export interface StackLayer {
  readonly key: string;
  readonly title: string;
  readonly meaning: string;
  /** Place in the palette of categories. */
  readonly colour: number;
  readonly values: Float64Array;
}

/** What is drawn: the layers from the bottom up, over ascending x. */
export interface Stacked {
  readonly x: Float64Array;
  readonly layers: readonly StackLayer[];
  /** Each column as parts of 1. */
  readonly isShare: boolean;
  /** Rows before which nothing is known. */
  readonly holes: ReadonlySet<number>;
}

const FEW = 0.03;

export function sumsOf(layers: readonly StackLayer[], length: number): Float64Array {
  return Float64Array.from({ length }, (_, row) => layers.reduce((sum, { values }) => sum + known(values[row]), 0));
}

function known(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) ? value : 0;
}

export function shownValue(layer: StackLayer, row: number, sums: Float64Array, isShare: boolean): number {
  const value = layer.values[row] ?? NaN;
  return isShare ? value / (sums[row] ?? NaN) : value;
}

/** What all but few do not exceed. */
export function bulkOf(sums: Float64Array): number {
  const sorted = sums.slice().sort();
  return sorted[Math.floor((sorted.length - 1) * (1 - FEW))] ?? 0;
}

export function greatest(values: Float64Array): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

export function whole(x: Float64Array): Extent {
  const [first, last] = [x[0] ?? 0, x.at(-1) ?? 1];
  return last > first ? [first, last] : [first - 0.5, first + 0.5];
}

export function drawLayers(
  context: CanvasRenderingContext2D,
  frame: StackFrame,
  stacked: Stacked,
  sums: Float64Array,
  colours: readonly string[],
): void {
  const { x, layers, isShare, holes } = stacked;
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  context.clip();
  context.globalAlpha = 0.82;
  const below = new Float64Array(x.length);
  for (const { values, colour } of layers) {
    const unit = (row: number): number => (isShare ? (sums[row] ?? 0) || 1 : 1);
    const top = below.map((height, row) => height + known(values[row]) / unit(row));
    context.fillStyle = colours[colour % colours.length] ?? "";
    for (const [from, to] of stretches(x.length, holes)) drawStretch(context, frame, x, below, top, from, to);
    below.set(top);
  }
  context.restore();
}

/** Rows from … to (not included) without a hole between them. */
function stretches(rows: number, holes: ReadonlySet<number>): [number, number][] {
  const starts = [0, ...[...holes].sort((a, b) => a - b)];
  return starts.map((from, place) => [from, starts[place + 1] ?? rows]);
}

/** A row that stands alone is as wide as can be seen; the only one of all is as wide as the picture. */
function drawStretch(
  context: CanvasRenderingContext2D,
  frame: StackFrame,
  x: Float64Array,
  below: Float64Array,
  top: Float64Array,
  from: number,
  to: number,
): void {
  const isOnly = x.length === 1;
  const width = to - from > 1 ? 0 : isOnly ? frame.right - frame.left : 1;
  const at = (row: number, side: number): number => placeX(frame, x[row] ?? 0) + (side * width) / (isOnly ? 1 : 2);
  context.beginPath();
  for (let row = from; row < to; row++) {
    if (width > 0) context.lineTo(at(row, -1), placeY(frame, top[row] ?? 0));
    context.lineTo(at(row, 1), placeY(frame, top[row] ?? 0));
  }
  for (let row = to - 1; row >= from; row--) {
    if (width > 0) context.lineTo(at(row, 1), placeY(frame, below[row] ?? 0));
    context.lineTo(at(row, -1), placeY(frame, below[row] ?? 0));
  }
  context.fill();
}

export function drawLimit(
  context: CanvasRenderingContext2D,
  frame: StackFrame,
  limit: { value: number; title: string },
  formatY: (value: number) => string,
  palette: Palette,
): void {
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

export function drawDrag(
  context: CanvasRenderingContext2D,
  frame: StackFrame,
  [a, b]: readonly [number, number],
  palette: Palette,
): void {
  const hold = (x: number): number => Math.min(Math.max(x, frame.left), frame.right);
  const [left, right] = [hold(Math.min(a, b)), hold(Math.max(a, b))];
  context.globalAlpha = 0.2;
  context.fillStyle = palette.accent;
  context.fillRect(left, frame.top, right - left, frame.bottom - frame.top);
  context.globalAlpha = 1;
}
