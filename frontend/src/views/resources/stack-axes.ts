import type { Palette } from "../../charts/palette";
import { TIME_INCREMENTS } from "../../lib/elapsed";
import { niceValues } from "../../lib/value-axis";

export interface StackFrame {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  /** What the borders stand for. */
  readonly from: number;
  readonly to: number;
  readonly high: number;
}

const TEXT = 11;
const PIXELS_PER_LABEL = { x: 84, y: 34 } as const;

export function placeX(frame: StackFrame, x: number): number {
  return frame.left + ((x - frame.from) / (frame.to - frame.from || 1)) * (frame.right - frame.left);
}

export function placeY(frame: StackFrame, y: number): number {
  return frame.bottom - (y / frame.high) * (frame.bottom - frame.top);
}

export function valueAtX(frame: StackFrame, pixel: number): number {
  const share = Math.min(Math.max((pixel - frame.left) / (frame.right - frame.left), 0), 1);
  return frame.from + share * (frame.to - frame.from);
}

/** Round numbers of what people count in: bytes by powers of two, time by the clock. */
export function valueTicks(high: number, most: number, kind: "number" | "bytes"): number[] {
  if (kind !== "bytes") return niceValues(0, high, most);
  const unit = 1024 ** Math.max(Math.floor(Math.log2(Math.max(high, 1)) / 10), 0);
  return niceValues(0, high / unit, most).map((value) => value * unit);
}

export function xTicks(frame: StackFrame, kind: "number" | "elapsed"): number[] {
  const most = Math.max(2, Math.floor((frame.right - frame.left) / PIXELS_PER_LABEL.x));
  if (kind === "number") return niceValues(frame.from, frame.to, most).filter(Number.isInteger);
  const step = TIME_INCREMENTS.find((size) => (frame.to - frame.from) / size <= most) ?? TIME_INCREMENTS.at(-1) ?? 1;
  const ticks: number[] = [];
  for (let at = Math.ceil(frame.from / step); at * step <= frame.to && ticks.length <= most; at++)
    ticks.push(at * step);
  return ticks;
}

interface AxisTexts {
  readonly formatX: (value: number) => string;
  readonly formatY: (value: number) => string;
  readonly xKind: "number" | "elapsed";
  readonly yKind: "number" | "bytes";
}

export function drawAxes(
  context: CanvasRenderingContext2D,
  frame: StackFrame,
  texts: AxisTexts,
  palette: Palette,
): void {
  context.font = `${TEXT}px ${palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const most = Math.max(2, Math.floor((frame.bottom - frame.top) / PIXELS_PER_LABEL.y));
  for (const tick of valueTicks(frame.high, most, texts.yKind)) {
    const y = Math.round(placeY(frame, tick)) + 0.5;
    context.strokeStyle = palette.grid;
    line(context, frame.left, y, frame.right, y);
    context.fillStyle = palette.faint;
    context.fillText(texts.formatY(tick), frame.left - 6, y);
  }
  context.textBaseline = "top";
  for (const tick of xTicks(frame, texts.xKind)) {
    const text = texts.formatX(tick);
    const half = context.measureText(text).width / 2;
    const x = Math.min(Math.max(placeX(frame, tick), frame.left + half), frame.right - half);
    context.textAlign = "center";
    context.fillText(text, x, frame.bottom + 7);
  }
}

export function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
