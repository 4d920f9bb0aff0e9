/** Draws bands, lines, marks of non-finite values and markers into the frame that uPlot has drawn. */

import type uPlot from "uplot";
import { lowerBound } from "../lib/nearest";
import { pixelColumns } from "../lib/pixel-columns";
import type { PlotContent } from "./line-plot";
import type { LineSeries, Marker } from "./line-series";

type Place = (value: number) => number;
const MOST_MARKER_ROWS = 6;
interface Canvas {
  readonly context: CanvasRenderingContext2D;
  /** In pixels of the device, as all that follows. */
  readonly x: Place;
  readonly y: Place;
  readonly box: uPlot.BBox;
  readonly ratio: number;
  readonly content: PlotContent;
  /** Where labels stand already, by their left and upper corner. */
  readonly labels: (readonly [left: number, top: number, right: number])[];
}

const BAND_ALPHA = 0.16;
const RAW_ALPHA = 0.3;
/** With more room than that between points each of them is shown. */
const POINT_SPACING = 14;
/** With less room than that nobody sees how lines are joined. */
const JOIN_SPACING = 4;
/**
 * The time for a path grows with the square of its points where it goes up and down much: without a graphics card
 * eight noisy lines of 600 points take 80 ms as eight paths, 10 ms in pieces, and 1 ms when they are one pixel wide.
 */
const POINTS_PER_PATH = 32;
/** Where points are closer than that, lines are two of one pixel, so far apart; and bands are columns of pixels. */
const DENSE_SPACING = 2;
const TWO_LINES_APART = 0.6;

export function paint(plot: uPlot, content: PlotContent): void {
  const { ctx: context, bbox: box } = plot;
  const canvas = {
    context,
    box,
    content,
    ratio: devicePixelRatio || 1,
    x: placeX(plot),
    y: placeY(plot, content.logY),
    labels: [],
  };
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  // The first series is the one in focus: it comes last, on top of the others.
  const order = [...content.series].reverse();
  for (const series of order) paintBand(canvas, series);
  for (const series of order) if (series.raw) paintLine(canvas, series, series.raw, RAW_ALPHA);
  for (const series of order) paintLine(canvas, series, series.y, 1);
  const broken = content.series.filter((series) => series.bad?.some((count) => count > 0));
  broken.forEach((series, row) => paintBad(canvas, series, row));
  for (const marker of content.markers) paintMarker(canvas, marker);
  for (const series of content.series) paintBeyond(canvas, series);
  context.restore();
}

function placeX(plot: uPlot): Place {
  const { min = 0, max = 1 } = plot.scales["x"] ?? {};
  const { left, width } = plot.bbox;
  const scale = width / ((max ?? 1) - (min ?? 0) || 1);
  return (value) => left + (value - (min ?? 0)) * scale;
}

function placeY(plot: uPlot, log: boolean): Place {
  const { min, max } = plot.scales["y"] ?? {};
  const { top, height } = plot.bbox;
  const measure = log ? Math.log10 : (value: number): number => value;
  const [low, high] = [measure(min ?? 0), measure(max ?? 1)];
  const scale = height / (high - low || 1);
  // Zero and less are below every log scale, but the line still has to go somewhere.
  return (value) => top + height - (log && value <= 0 ? -height : (measure(value) - low) * scale);
}

/** The rows in sight, and one more to each side, because the line to it is seen. */
function sight({ x, box }: Canvas, series: LineSeries): [from: number, to: number] {
  const scale = x(1) - x(0) || 1;
  const value = (pixel: number): number => (pixel - x(0)) / scale;
  const from = lowerBound(series.x, value(box.left)) - 1;
  const to = lowerBound(series.x, value(box.left + box.width)) + 1;
  return [Math.max(0, from), Math.min(series.x.length, to)];
}

function paintBand(canvas: Canvas, series: LineSeries): void {
  const { low, high } = series;
  if (!low || !high) return;
  const { context } = canvas;
  context.fillStyle = series.colour;
  context.globalAlpha = BAND_ALPHA;
  const rows = sight(canvas, series);
  const dense = spacingOf(canvas, rows) < DENSE_SPACING;
  for (const stretch of stretches(low, rows)) {
    if (dense) fillBetween(canvas, series.x, low, high, stretch);
    else for (const piece of pieces(stretch)) fillPiece(canvas, series.x, low, high, piece);
  }
  context.globalAlpha = 1;
}

/** One polygon. Pieces meet at whole pixels, or there would be a seam. */
function fillPiece(
  { context, x, y }: Canvas,
  at: Float64Array,
  low: Float64Array,
  high: Float64Array,
  [from, to]: readonly [number, number],
): void {
  const place = (index: number): number => {
    const exact = x(at[index] ?? 0);
    return index === from || index === to - 1 ? Math.round(exact) : exact;
  };
  context.beginPath();
  for (let index = from; index < to; index++) context.lineTo(place(index), y(high[index] ?? 0));
  for (let index = to - 1; index >= from; index--) context.lineTo(place(index), y(low[index] ?? 0));
  context.fill();
}

/** The same where there are more points than pixels. */
function fillBetween(
  { context, x, y }: Canvas,
  at: Float64Array,
  low: Float64Array,
  high: Float64Array,
  [from, to]: readonly [number, number],
): void {
  const place = (index: number): number => x(at[index] ?? 0);
  const upper = pixelColumns(from, to, place, (index) => y(high[index] ?? 0));
  const lower = pixelColumns(from, to, place, (index) => y(low[index] ?? 0));
  upper.forEach(({ left, top }, index) => {
    const width = (upper[index + 1]?.left ?? left + 1) - left;
    context.fillRect(left, top, width, (lower[index]?.bottom ?? top) - top);
  });
}

/** Pixels of the page between two points. */
function spacingOf({ box, ratio }: Canvas, [from, to]: readonly [number, number]): number {
  return box.width / ((to - from) * ratio);
}

/** Short parts of a stretch; each begins with the last point of the one before. */
function* pieces([from, to]: readonly [number, number]): Generator<[number, number]> {
  for (let start = from; start < to - 1 || start === from; start += POINTS_PER_PATH)
    yield [start, Math.min(start + POINTS_PER_PATH + 1, to)];
}

/** The finite stretches between gaps. */
function stretches(values: Float64Array, [from, to]: [number, number]): [number, number][] {
  const found: [number, number][] = [];
  let start = -1;
  for (let index = from; index <= to; index++) {
    const inside = index < to && Number.isFinite(values[index]);
    if (inside && start < 0) start = index;
    if (!inside && start >= 0) {
      found.push([start, index]);
      start = -1;
    }
  }
  return found;
}

function paintLine(canvas: Canvas, series: LineSeries, values: Float64Array, alpha: number): void {
  const { context, x, y, ratio } = canvas;
  const rows = sight(canvas, series);
  const spacing = spacingOf(canvas, rows);
  const isMain = alpha === 1;
  const isDouble = isMain && ratio <= 1 && spacing < DENSE_SPACING;
  context.strokeStyle = context.fillStyle = series.colour;
  context.globalAlpha = alpha;
  context.lineWidth = (isMain && !isDouble ? 1.6 : 1) * ratio;
  context.lineJoin = spacing > JOIN_SPACING ? "round" : "bevel";
  context.setLineDash((series.dash ?? []).map((length) => length * ratio));
  for (const [start, end] of stretches(values, rows)) {
    const shifts = isDouble ? [-TWO_LINES_APART / 2, TWO_LINES_APART / 2] : [0];
    for (const shift of shifts) strokePieces(canvas, series, values, [start, end], shift);
    if (isMain && (spacing > POINT_SPACING || end - start === 1)) paintPoints(canvas, series, values, start, end);
    if (isMain && (series.bad?.[end] ?? 0) > 0) paintEnd(canvas, x(series.x[end - 1] ?? 0), y(values[end - 1] ?? 0));
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function strokePieces(
  { context, x, y }: Canvas,
  series: LineSeries,
  values: Float64Array,
  stretch: readonly [number, number],
  shift: number,
): void {
  // Dashes would begin anew in each piece.
  for (const [from, to] of series.dash?.length ? [stretch] : pieces(stretch)) {
    context.beginPath();
    for (let index = from; index < to; index++)
      context.lineTo(x(series.x[index] ?? 0) + shift, y(values[index] ?? 0) + shift);
    context.stroke();
  }
}

function paintPoints(
  { context, x, y, ratio }: Canvas,
  series: LineSeries,
  values: Float64Array,
  from: number,
  to: number,
): void {
  for (let index = from; index < to; index++) {
    context.beginPath();
    context.arc(x(series.x[index] ?? 0), y(values[index] ?? 0), 2.4 * ratio, 0, 2 * Math.PI);
    context.fill();
  }
}

/** A cross where a line breaks off because its next value is not finite. */
function paintEnd({ context, ratio, content }: Canvas, x: number, y: number): void {
  const size = 4 * ratio;
  context.save();
  context.setLineDash([]);
  context.strokeStyle = content.palette.bad;
  context.lineWidth = 2 * ratio;
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x + size, y - size);
  context.lineTo(x - size, y + size);
  context.stroke();
  context.restore();
}

/** Where values were not finite: a hatched bar along the lower edge, one row a series, with its name. */
function paintBad(canvas: Canvas, series: LineSeries, row: number): void {
  const { bad } = series;
  if (!bad) return;
  const { context, x, box, ratio, content } = canvas;
  const [from, to] = sight(canvas, series);
  const height = 4 * ratio;
  const top = box.top + box.height - (row % 6) * (height + ratio) - height;
  let [start, end, first] = [-1, -1, true];
  const flush = (): void => {
    if (start < 0) return;
    const left = x(start);
    const width = Math.max(x(end) - left, 3 * ratio);
    context.fillStyle = content.palette.bad;
    context.fillRect(left, top, width, height);
    context.fillStyle = series.colour;
    for (let at = left + 4 * ratio; at < left + width; at += 8 * ratio) context.fillRect(at, top, 2 * ratio, height);
    if (first && row === 0) label(canvas, "not finite", left, top - 4 * ratio, content.palette.bad);
    [start, first] = [-1, false];
  };
  for (let index = from; index < to; index++) {
    if ((bad[index] ?? 0) > 0) {
      if (start < 0) start = series.x[index] ?? 0;
      end = series.x[index + 1] ?? series.x[index] ?? 0;
    } else flush();
  }
  flush();
}

/** Triangles at the edges where a line leaves the picture, with how far it goes. */
function paintBeyond(canvas: Canvas, series: LineSeries): void {
  const { x, y, box, ratio, content } = canvas;
  const [from, to] = sight(canvas, series);
  let [highest, lowest] = [-1, -1];
  for (let index = from; index < to; index++) {
    const place = y(series.y[index] ?? NaN);
    if (place < box.top && !((series.y[highest] ?? -Infinity) >= (series.y[index] ?? 0))) highest = index;
    if (place > box.top + box.height && !((series.y[lowest] ?? Infinity) <= (series.y[index] ?? 0))) lowest = index;
  }
  for (const [index, edge, sign] of [
    [highest, box.top, 1],
    [lowest, box.top + box.height, -1],
  ] as const) {
    // Without logarithm there is no place for zero; that is not beyond an edge worth a mark.
    if (index < 0 || (content.logY && sign < 0)) continue;
    const left = Math.min(Math.max(x(series.x[index] ?? 0), box.left + 5 * ratio), box.left + box.width - 5 * ratio);
    paintTriangle(canvas, left, edge, sign * 7 * ratio, series.colour);
    const text = content.formatY(series.y[index] ?? 0);
    label(canvas, text, left + 7 * ratio, edge + (sign > 0 ? 10 : -3) * ratio, series.colour);
  }
}

function paintTriangle({ context }: Canvas, x: number, edge: number, size: number, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, edge);
  context.lineTo(x - Math.abs(size) * 0.7, edge + size);
  context.lineTo(x + Math.abs(size) * 0.7, edge + size);
  context.fill();
}

function paintMarker(canvas: Canvas, marker: Marker): void {
  const { context, x, box, ratio, content } = canvas;
  const colour = marker.tone === "info" ? content.palette.accent : content.palette[marker.tone];
  const left = Math.round(x(marker.x)) + 0.5;
  context.strokeStyle = colour;
  context.lineWidth = ratio;
  context.setLineDash([4 * ratio, 3 * ratio]);
  context.beginPath();
  context.moveTo(left, box.top);
  context.lineTo(left, box.top + box.height);
  context.stroke();
  context.setLineDash([]);
  // Markers of about the same place have their names below each other.
  for (let row = 0; row < MOST_MARKER_ROWS; row++) {
    if (label(canvas, marker.label, left + 5 * ratio, box.top + (12 + 14 * row) * ratio, colour)) return;
  }
}

/** Text that stays inside the frame and readable on lines; left out where another text stands. */
/** Whether there was room for it. */
function label(canvas: Canvas, text: string, x: number, y: number, colour: string): boolean {
  const { context, box, ratio, content, labels } = canvas;
  context.font = `500 ${11 * ratio}px ${content.palette.font}`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  const width = context.measureText(text).width;
  const left = Math.max(box.left, Math.min(x, box.left + box.width - width - 4 * ratio));
  const height = 13 * ratio;
  if (labels.some(([from, top, to]) => left < to && left + width > from && Math.abs(top - y) < height)) return false;
  labels.push([left, y, left + width]);
  context.lineWidth = 3 * ratio;
  context.strokeStyle = content.palette.surface;
  context.strokeText(text, left, y);
  context.fillStyle = colour;
  context.fillText(text, left, y);
  return true;
}
