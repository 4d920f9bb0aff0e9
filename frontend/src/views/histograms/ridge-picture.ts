/** Draws histograms over time as profiles, one behind the other: the oldest at the top. */

import type { Palette } from "../../charts/palette";
import { rampColour, sequentialRamp } from "../../lib/colourmap";
import { formatNumber, formatShort } from "../../lib/format";
import { binsAt, commonHeight, lengthOf, profile, type HistogramSeries, type Profile } from "../../lib/ridge";
import type { ValueAxis } from "../../lib/value-axis";
import { SMALL_TEXT, type Frame } from "../layers/axes";

export interface RidgeScene {
  readonly steps: Float64Array;
  readonly profiles: readonly Profile[];
  readonly axis: ValueAxis;
  /** The height of most profiles, which is as high as the room for one. */
  readonly common: number;
  readonly width: number;
}

/** How many ridges' room a profile of common height covers: overlaps save space, and the eye follows them. */
const OVERLAP = 3.2;

/** In common heights; what is higher is cut, as its numbers can be had by a click. */
const MOST_HEIGHT = 1.6;

export function ridgeFrame(width: number, height: number): Frame {
  return { left: 44, right: width - 8, top: 44, bottom: height - 24 };
}

export function ridgeScene(series: HistogramSeries, last: Float64Array, axis: ValueAxis, width: number): RidgeScene {
  const profiles = Array.from({ length: lengthOf(series) }, (_, i) => profile(binsAt(series, i), axis, width));
  return { steps: last, profiles, axis, common: commonHeight(profiles), width };
}

/** The baseline of a ridge; the first is the highest up. */
export function ridgeY(frame: Frame, scene: RidgeScene, index: number): number {
  const count = Math.max(1, scene.profiles.length - 1);
  return frame.top + ((frame.bottom - frame.top) * index) / count;
}

/** The ridge whose baseline is nearest; -1 when there is none. */
export function ridgeAt(frame: Frame, scene: RidgeScene, y: number): number {
  const count = scene.profiles.length;
  if (count === 0) return -1;
  const place = (y - frame.top) / (frame.bottom - frame.top);
  return Math.min(count - 1, Math.max(0, Math.round(place * Math.max(1, count - 1))));
}

export function drawRidges(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  scene: RidgeScene,
  palette: Palette,
): void {
  const frame = ridgeFrame(width, height);
  const ramp = sequentialRamp(palette.theme);
  drawValueMarks(context, frame, scene.axis, palette);
  scene.profiles.forEach((_, i) => {
    const age = scene.profiles.length < 2 ? 1 : i / (scene.profiles.length - 1);
    drawRidge(context, frame, scene, i, rampColour(ramp, 0.25 + 0.6 * age), palette.surface, 0.75);
  });
  drawStepMarks(context, frame, scene, palette);
}

/** Fills with the ground first, so that it hides what lies behind. */
export function drawRidge(
  context: CanvasRenderingContext2D,
  frame: Frame,
  scene: RidgeScene,
  index: number,
  colour: string,
  ground: string,
  alpha: number,
): void {
  const shape = scene.profiles[index];
  if (!shape || shape.height.length === 0) return;
  const base = ridgeY(frame, scene, index);
  const room = ((frame.bottom - frame.top) / Math.max(1, scene.profiles.length - 1)) * OVERLAP;
  const most = Math.max(room, 14);
  const scale = (frame.right - frame.left) / scene.width;
  const x = (i: number): number => frame.left + (shape.x[i] ?? 0) * scale;
  context.save();
  context.beginPath();
  context.rect(frame.left - 1, 0, frame.right - frame.left + 2, frame.bottom + 2);
  context.clip();
  context.beginPath();
  context.moveTo(x(0), base);
  shape.height.forEach((height, i) => {
    const y = Math.max(2, base - Math.min(MOST_HEIGHT, height / scene.common) * most);
    context.lineTo(x(i), y);
    context.lineTo(x(i + 1), y);
  });
  context.lineTo(x(shape.height.length), base);
  context.globalAlpha = alpha;
  context.fillStyle = ground;
  context.fill();
  context.globalAlpha = alpha * 0.45;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}

function drawValueMarks(context: CanvasRenderingContext2D, frame: Frame, axis: ValueAxis, palette: Palette): void {
  context.font = `${SMALL_TEXT}px ${palette.font}`;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const tick of axis.ticks(Math.max(2, Math.floor((frame.right - frame.left) / 62)))) {
    const x = frame.left + tick.place * (frame.right - frame.left);
    context.fillStyle = tick.value === 0 ? palette.line : palette.grid;
    context.fillRect(Math.round(x), 8, 1, frame.bottom - 8);
    context.fillStyle = palette.muted;
    context.fillText(formatNumber(tick.value, 3), Math.min(x, frame.right - 10), frame.bottom + 6);
  }
}

function drawStepMarks(context: CanvasRenderingContext2D, frame: Frame, scene: RidgeScene, palette: Palette): void {
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = palette.muted;
  let free = -Infinity;
  scene.steps.forEach((step, i) => {
    const y = ridgeY(frame, scene, i);
    if (y < free) return;
    context.fillText(formatShort(step), frame.left - 6, y);
    free = y + 26;
  });
}
