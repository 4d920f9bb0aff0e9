import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../app/state";
import { onSize } from "./canvas";
import { paletteOf } from "./palette";

export interface SparklineProps {
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly colour: string;
  readonly logY?: boolean;
}

/** A small curve without axes, below a number that says what matters. Decoration for who cannot see it. */
export function Sparkline(props: SparklineProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const current = theme.value;
  useEffect(() => {
    const element = canvas.current;
    return element ? onSize(element, () => paint(element, latest.current)) : undefined;
  }, []);
  useEffect(() => void (canvas.current && paint(canvas.current, props)), [props.x, props.y, props.colour, current]);
  return <canvas ref={canvas} class="sparkline" aria-hidden="true" />;
}

function paint(canvas: HTMLCanvasElement, { x, y, colour, logY = false }: SparklineProps): void {
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!context || width === 0) return;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  context.scale(ratio, ratio);
  const measure = logY
    ? (value: number): number => (value > 0 ? Math.log10(value) : NaN)
    : (value: number): number => value;
  const values = y.map(measure);
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return;
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const flat = high - low <= 1e-9 * Math.max(Math.abs(high), Math.abs(low));
  const [first, last] = [x[0] ?? 0, x[x.length - 1] ?? 1];
  const placeX = (value: number): number => ((value - first) / (last - first || 1)) * (width - 4) + 1;
  const placeY = (value: number): number => height - 3 - ((value - low) / (high - low || 1)) * (height - 7);
  context.lineJoin = "bevel"; // the round ones take twice the time, and are not seen in so small a picture
  const line = new Path2D();
  let drawing = false;
  values.forEach((value, index) => {
    const there = Number.isFinite(value);
    if (there) line[drawing ? "lineTo" : "moveTo"](placeX(x[index] ?? 0), flat ? height / 2 : placeY(value));
    drawing = there;
  });
  const { theme: name } = paletteOf(theme.peek());
  context.strokeStyle = colour;
  context.globalAlpha = name === "dark" ? 0.95 : 0.9;
  context.lineWidth = 1.4;
  context.stroke(line);
}
