/** Axes and their grids, drawn on a canvas. */

import type { Palette } from "../../charts/palette";
import { formatNumber, formatShort } from "../../lib/format";
import type { StepWindow } from "../../lib/heat";
import { niceValues, type ValueAxis } from "../../lib/value-axis";

/** The part of a canvas in which data is drawn, in CSS pixels. */
export interface Frame {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export const SMALL_TEXT = 11;
const STEP_LABEL_PIXELS = 70;
const VALUE_LABEL_PIXELS = 26;

export function stepX(frame: Frame, window: StepWindow, step: number): number {
  return frame.left + ((step - window.first) / (window.last - window.first + 1)) * (frame.right - frame.left);
}

export function stepAt(frame: Frame, window: StepWindow, x: number): number {
  return window.first + ((x - frame.left) / (frame.right - frame.left)) * (window.last - window.first + 1);
}

/** The low end of the axis is at the bottom. */
export function valueY(frame: Frame, axis: ValueAxis, value: number): number {
  return frame.bottom - axis.place(value) * (frame.bottom - frame.top);
}

export function drawStepAxis(
  context: CanvasRenderingContext2D,
  frame: Frame,
  window: StepWindow,
  palette: Palette,
): void {
  const most = Math.max(2, Math.floor((frame.right - frame.left) / STEP_LABEL_PIXELS));
  const whole = niceValues(window.first, window.last, most).filter((step) => Number.isInteger(step));
  context.font = `${SMALL_TEXT}px ${palette.font}`;
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const step of whole) {
    const x = stepX(frame, window, step + 0.5);
    context.fillStyle = palette.line;
    context.fillRect(Math.round(x), frame.bottom, 1, 4);
    context.fillStyle = palette.muted;
    context.fillText(stepText(step, window), Math.min(x, frame.right - 12), frame.bottom + 6);
  }
}

function stepText(step: number, window: StepWindow): string {
  return window.last - window.first > 20000 || step < 10000 ? formatShort(step) : String(step);
}

export function drawValueAxis(
  context: CanvasRenderingContext2D,
  frame: Frame,
  axis: ValueAxis,
  palette: Palette,
): void {
  context.font = `${SMALL_TEXT}px ${palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const ticks = axis.ticks(Math.max(2, Math.floor((frame.bottom - frame.top) / VALUE_LABEL_PIXELS)));
  const digits = tellingDigits(ticks.map((tick) => tick.value));
  for (const tick of ticks) {
    const y = valueY(frame, axis, tick.value);
    context.fillStyle = tick.value === 0 ? palette.line : palette.grid;
    context.fillRect(frame.left, Math.round(y), frame.right - frame.left, 1);
    context.fillStyle = palette.muted;
    context.fillText(
      formatNumber(tick.value, digits),
      frame.left - 6,
      Math.min(Math.max(y, frame.top + 5), frame.bottom - 4),
    );
  }
}

/** As few digits as tell all values apart. */
export function tellingDigits(values: readonly number[]): number {
  let digits = 3;
  while (digits < 9 && new Set(values.map((value) => formatNumber(value, digits))).size < values.length) digits++;
  return digits;
}

export function drawFrame(context: CanvasRenderingContext2D, frame: Frame, palette: Palette): void {
  context.fillStyle = palette.line;
  context.fillRect(frame.left, frame.bottom, frame.right - frame.left, 1);
}

/** A vertical line through a step; what it says stands in the tooltip. */
export function drawStepLine(context: CanvasRenderingContext2D, frame: Frame, x: number, colour: string): void {
  context.fillStyle = colour;
  context.fillRect(Math.round(x), frame.top, 1, frame.bottom - frame.top);
}

/** The stretch that a drag has covered so far. */
export function drawSelection(
  context: CanvasRenderingContext2D,
  frame: Frame,
  from: number,
  to: number,
  palette: Palette,
): void {
  const [left, right] = [Math.min(from, to), Math.max(from, to)].map((x) =>
    Math.min(frame.right, Math.max(frame.left, x)),
  );
  if (left === undefined || right === undefined) return;
  context.globalAlpha = 0.25;
  context.fillStyle = palette.accent;
  context.fillRect(left, frame.top, right - left, frame.bottom - frame.top);
  context.globalAlpha = 1;
  context.fillRect(left, frame.top, 1, frame.bottom - frame.top);
  context.fillRect(right - 1, frame.top, 1, frame.bottom - frame.top);
}
