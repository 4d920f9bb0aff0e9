/** Draws one histogram as bars, or two as outlines with their difference below. */

import type { Palette } from "../../charts/palette";
import { categorical } from "../../lib/colour";
import { formatNumber, formatPercent } from "../../lib/format";
import {
  differences,
  heightAxis,
  heights,
  type Bars,
  type HeightAxis,
  type HeightMode,
} from "../../lib/histogram-shape";
import type { ValueAxis } from "../../lib/value-axis";
import { drawFrame, SMALL_TEXT, tellingDigits, type Frame } from "../layers/axes";

export interface HistogramScene {
  readonly bars: Bars;
  readonly axis: ValueAxis;
  readonly mode: HeightMode;
  readonly log: boolean;
  /** The width in pixels that the bars were made for. */
  readonly width: number;
}

const DIFFERENCE_HEIGHT = 70;
const AXIS_ROOM = 24;

/** Where the bars are, and below them where the difference is when two are compared. */
export function histogramFrames(
  width: number,
  height: number,
  two: boolean,
): { main: Frame; difference: Frame | null } {
  const [left, right] = [Math.min(58, width * 0.16), width - 8];
  const bottom = height - AXIS_ROOM;
  if (!two) return { main: { left, right, top: 8, bottom }, difference: null };
  const middle = bottom - DIFFERENCE_HEIGHT;
  return { main: { left, right, top: 8, bottom: middle - 16 }, difference: { left, right, top: middle, bottom } };
}

/** The first is always blue and the second always orange, also in tables and legends. */
export function colourOfSide(which: number, theme: Palette["theme"]): string {
  return categorical(theme)[which] ?? "#888888";
}

export function drawHistogram(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  scene: HistogramScene,
  palette: Palette,
): void {
  const two = scene.bars.totals.length > 1;
  const { main, difference } = histogramFrames(width, height, two);
  const columns = scene.bars.totals.map((_, which) => heights(scene.bars, which, scene.mode, scene.width));
  const scale = heightAxis(
    columns.map((column) => inSight(column, scene)),
    scene.log,
  );
  drawHeightAxis(context, main, scale, scene.mode, palette);
  drawValues(context, main, difference?.bottom ?? main.bottom, scene.axis, palette);
  withinFrame(context, main, () => {
    columns.forEach((column, which) => {
      drawBars(context, main, scene, column, scale, colourOfSide(which, palette.theme), two);
    });
  });
  drawFrame(context, main, palette);
  const [a, b] = columns;
  if (difference && a && b) drawDifference(context, difference, scene, differences(a, b), palette);
}

/** Heights outside of the axis, which may be zoomed, do not count for the scale. */
function inSight(column: Float64Array, { bars, width }: HistogramScene): Float64Array {
  return column.filter((_, i) => (bars.cells.right[i] ?? 0) >= 0 && (bars.cells.left[i] ?? 0) <= width);
}

function withinFrame(context: CanvasRenderingContext2D, frame: Frame, draw: () => void): void {
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  context.clip();
  draw();
  context.restore();
}

/** From cell to pixels; at least one pixel wide. */
export function cellSpan(frame: Frame, scene: HistogramScene, cell: number): { left: number; width: number } {
  const scale = (frame.right - frame.left) / scene.width;
  const left = (scene.bars.cells.left[cell] ?? 0) * scale;
  return { left: frame.left + left, width: Math.max(1, (scene.bars.cells.right[cell] ?? 0) * scale - left) };
}

/** One shape, not a rectangle a bar: where translucent rectangles meet between pixels, seams would show. */
function drawBars(
  context: CanvasRenderingContext2D,
  frame: Frame,
  scene: HistogramScene,
  column: Float64Array,
  scale: HeightAxis,
  colour: string,
  two: boolean,
): void {
  const path = outline(frame, scene, column, scale);
  context.fillStyle = colour;
  context.globalAlpha = two ? 0.2 : 0.4;
  context.fill(path);
  context.globalAlpha = 1;
  if (!two) drawBinEdges(context, frame, scene, column, scale, colour);
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.stroke(path);
}

function outline(frame: Frame, scene: HistogramScene, column: Float64Array, scale: HeightAxis): Path2D {
  const path = new Path2D();
  let end = -Infinity;
  column.forEach((height, i) => {
    if (!(height > 0)) return;
    const { left, width } = cellSpan(frame, scene, i);
    const y = Math.min(frame.bottom - 1, frame.bottom - scale.place(height) * (frame.bottom - frame.top));
    if (left > end + 0.5) {
      if (Number.isFinite(end)) path.lineTo(end, frame.bottom);
      path.moveTo(left, frame.bottom);
    }
    path.lineTo(Math.max(left, end), y);
    path.lineTo(left + width, y);
    end = left + width;
  });
  if (Number.isFinite(end)) path.lineTo(end, frame.bottom);
  return path;
}

const SEEN_BIN_PIXELS = 5;

/** Faint lines between bins that are wide enough to be told apart. */
function drawBinEdges(
  context: CanvasRenderingContext2D,
  frame: Frame,
  scene: HistogramScene,
  column: Float64Array,
  scale: HeightAxis,
  colour: string,
): void {
  context.globalAlpha = 0.35;
  context.fillStyle = colour;
  column.forEach((height, i) => {
    const { left, width } = cellSpan(frame, scene, i);
    if (width < SEEN_BIN_PIXELS || !(height > 0)) return;
    const tall = scale.place(Math.min(height, column[i - 1] ?? 0)) * (frame.bottom - frame.top);
    context.fillRect(Math.round(left), frame.bottom - tall, 1, tall);
  });
  context.globalAlpha = 1;
}

function drawDifference(
  context: CanvasRenderingContext2D,
  frame: Frame,
  scene: HistogramScene,
  column: Float64Array,
  palette: Palette,
): void {
  const most = inSight(column, scene).reduce((reach, height) => Math.max(reach, Math.abs(height)), 0) || 1;
  const middle = (frame.top + frame.bottom) / 2;
  const half = (frame.bottom - frame.top) / 2;
  withinFrame(context, frame, () => {
    column.forEach((height, i) => {
      if (height === 0) return;
      const { left, width } = cellSpan(frame, scene, i);
      const tall = (Math.abs(height) / most) * half;
      context.fillStyle = colourOfSide(height > 0 ? 0 : 1, palette.theme);
      context.fillRect(left, height > 0 ? middle - tall : middle, width, Math.max(0.5, tall));
    });
  });
  context.fillStyle = palette.line;
  context.fillRect(frame.left, middle, frame.right - frame.left, 1);
  drawFrame(context, frame, palette);
  context.font = `${SMALL_TEXT}px ${palette.font}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = palette.muted;
  context.fillText("A more", frame.left - 6, frame.top + 8);
  context.fillText("B more", frame.left - 6, frame.bottom - 8);
}

const HEIGHT_LABEL_PIXELS = 34;

function drawHeightAxis(
  context: CanvasRenderingContext2D,
  frame: Frame,
  scale: HeightAxis,
  mode: HeightMode,
  palette: Palette,
): void {
  const ticks = scale.ticks(Math.max(2, Math.floor((frame.bottom - frame.top) / HEIGHT_LABEL_PIXELS)));
  const digits = tellingDigits(ticks);
  context.font = `${SMALL_TEXT}px ${palette.font}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const tick of ticks) {
    const y = frame.bottom - scale.place(tick) * (frame.bottom - frame.top);
    context.fillStyle = palette.grid;
    context.fillRect(frame.left, Math.round(y), frame.right - frame.left, 1);
    context.fillStyle = palette.muted;
    const text = mode === "share" ? formatPercent(tick) : formatNumber(tick, digits);
    context.fillText(text, frame.left - 6, Math.max(y, frame.top + 5));
  }
}

const VALUE_LABEL_PIXELS = 58;

/** Marks of the values along `bottom`, with faint lines up. */
function drawValues(
  context: CanvasRenderingContext2D,
  frame: Frame,
  bottom: number,
  axis: ValueAxis,
  palette: Palette,
): void {
  const ticks = axis.ticks(Math.max(2, Math.floor((frame.right - frame.left) / VALUE_LABEL_PIXELS)));
  const digits = tellingDigits(ticks.map((tick) => tick.value));
  context.font = `${SMALL_TEXT}px ${palette.font}`;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const tick of ticks) {
    const x = frame.left + tick.place * (frame.right - frame.left);
    context.fillStyle = tick.value === 0 ? palette.line : palette.grid;
    context.fillRect(Math.round(x), frame.top, 1, bottom - frame.top);
    context.fillStyle = palette.muted;
    context.fillText(formatNumber(tick.value, digits), Math.min(Math.max(x, frame.left), frame.right - 14), bottom + 6);
  }
}
