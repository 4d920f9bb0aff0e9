import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../app/state";
import { ChartTools } from "./chart-frame";
import { exportCsv, exportPng, type CsvRow } from "./export";
import { paletteOf, type Palette } from "./palette";

export interface CanvasPointer {
  readonly type: "move" | "down" | "up" | "leave" | "wheel" | "double";
  /** In CSS pixels from the left and upper edge. */
  readonly x: number;
  readonly y: number;
  readonly shift: boolean;
  /** Whether the main button is held. */
  readonly pressed: boolean;
  readonly wheel: number;
}

export interface CanvasBoxProps {
  /** Draws everything, in CSS pixels; called again on resize, on a change of theme and when it is another function. */
  readonly draw: (context: CanvasRenderingContext2D, width: number, height: number, theme: Palette) => void;
  readonly onPointer?: (pointer: CanvasPointer) => void;
  /** Keys pressed while the canvas has the focus; true: it was for the canvas. */
  readonly onKey?: (event: KeyboardEvent) => boolean;
  /** What a blind person is told of the picture. */
  readonly label: string;
  /** In CSS pixels; default: the height that the style sheet gives. */
  readonly height?: number;
  readonly class?: string;
  readonly exportName: string;
  /** Header and rows. */
  readonly csv?: () => readonly CsvRow[];
}

/** A canvas that fills the width of its place, sharp on any screen, with buttons for PNG and CSV. */
export function CanvasBox(props: CanvasBoxProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const palette = paletteOf(theme.value);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    return onSize(element, () => paint(element, latest.current, paletteOf(theme.peek())));
  }, []);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const frame = requestAnimationFrame(() => paint(element, latest.current, palette));
    return () => cancelAnimationFrame(frame);
  }, [props.draw, palette]);
  const point = (type: CanvasPointer["type"]) => (event: PointerEvent | WheelEvent | MouseEvent) =>
    latest.current.onPointer?.(pointerOf(type, event));
  return (
    <figure class={`canvas-box ${props.class ?? ""}`}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={props.label}
        style={props.height === undefined ? {} : { height: `${props.height}px` }}
        onPointerMove={point("move")}
        onPointerDown={point("down")}
        onPointerUp={point("up")}
        onPointerLeave={point("leave")}
        onDblClick={point("double")}
        onWheel={point("wheel")}
        onKeyDown={(event) => {
          if (latest.current.onKey?.(event)) {
            event.preventDefault();
            event.stopPropagation();
          }
        }}
      />
      <figcaption class="canvas-tools">
        <ChartTools
          what={props.exportName}
          onPng={() =>
            canvas.current && exportPng(canvas.current, props.exportName, { title: props.exportName, legend: [] })
          }
          onCsv={props.csv && (() => exportCsv(latest.current.csv?.() ?? [], props.exportName))}
        />
      </figcaption>
    </figure>
  );
}

function paint(canvas: HTMLCanvasElement, props: CanvasBoxProps, palette: Palette): void {
  const context = canvas.getContext("2d");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!context || width === 0 || height === 0) return;
  const ratio = window.devicePixelRatio || 1;
  const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixelWidth) canvas.width = pixelWidth;
  if (canvas.height !== pixelHeight) canvas.height = pixelHeight;
  context.setTransform(pixelWidth / width, 0, 0, pixelHeight / height, 0, 0);
  context.clearRect(0, 0, width, height);
  props.draw(context, width, height, palette);
}

/** Calls `changed` when the element gets another size, at most once a frame; returns how to stop. */
export function onSize(element: Element, changed: () => void): () => void {
  let frame = 0;
  const observer = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(changed);
  });
  observer.observe(element);
  return () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
  };
}

function pointerOf(type: CanvasPointer["type"], event: PointerEvent | WheelEvent | MouseEvent): CanvasPointer {
  const box = (event.currentTarget as Element).getBoundingClientRect();
  return {
    type,
    x: event.clientX - box.left,
    y: event.clientY - box.top,
    shift: event.shiftKey,
    pressed: (event.buttons & 1) === 1,
    wheel: "deltaY" in event ? event.deltaY : 0,
  };
}
