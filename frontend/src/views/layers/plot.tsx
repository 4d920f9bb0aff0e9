import { effect, type ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { theme } from "../../app/state";
import { CanvasBox, onSize, type CanvasBoxProps } from "../../charts/canvas";
import { paletteOf, type Palette } from "../../charts/palette";
import { Gestures, type Gesture, type Point } from "../../lib/gestures";

export interface PlotSize {
  readonly width: number;
  readonly height: number;
}

export interface PlotProps extends Pick<CanvasBoxProps, "draw" | "label" | "height" | "exportName" | "csv"> {
  /** Drawn on a canvas of its own above the picture, again whenever a signal that it reads changes. */
  readonly overlay: (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => void;
  readonly onGesture: (gesture: Gesture, size: PlotSize) => void;
  readonly onLeave: () => void;
  readonly onReset: () => void;
  /** The wheel turned with a modifier key, or two fingers on a touch pad; `across` is the part to the side. */
  readonly onWheel: (at: Point, turned: number, across: number, size: PlotSize) => void;
  /** true: the key was for the picture. */
  readonly onKey?: (event: KeyboardEvent, size: PlotSize) => boolean;
  /** What a screen reader says now, after a key moved something. */
  readonly spoken?: ReadonlySignal<string>;
  readonly class?: string;
  /** What lies above the picture, like a tooltip. */
  readonly children?: ComponentChildren;
}

/** A picture that is drawn rarely under an overlay that is drawn often, with mouse, touch and keys. */
export function Plot(props: PlotProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const gestures = useMemo(() => new Gestures(), []);
  useEffect(() => keepAbove(place.current, above.current, latest), [props.overlay]);
  useEffect(() => listenToWheel(place.current, latest), []);
  useEffect(() => listenToTouchBeside(place.current, latest), []);
  const pointer = (event: PointerEvent): void => {
    const box = canvasBox(place.current);
    if (!box || (event.type === "pointerdown" && !isOnPicture(event))) return;
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    if (event.type === "pointerdown") capture(event);
    props.onGesture(gestureOf(gestures, event, at), box);
  };
  return (
    <div
      ref={place}
      class={`tensor-plot ${props.class ?? ""}`}
      onPointerDown={pointer}
      onPointerMove={pointer}
      onPointerUp={pointer}
      onPointerCancel={pointer}
      onPointerLeave={(event) => event.pointerType !== "touch" && props.onLeave()}
      onDblClick={(event) => isOnPicture(event) && props.onReset()}
    >
      <CanvasBox
        draw={props.draw}
        label={props.label}
        exportName={props.exportName}
        {...(props.height === undefined ? {} : { height: props.height })}
        onKey={(event) => {
          const box = canvasBox(place.current);
          return (box && props.onKey?.(event, box)) ?? false;
        }}
        {...(props.csv === undefined ? {} : { csv: props.csv })}
      />
      <canvas ref={above} class="tensor-overlay" aria-hidden="true" />
      {props.children}
      {props.spoken && <Spoken text={props.spoken} />}
    </div>
  );
}

function Spoken({ text }: { readonly text: ReadonlySignal<string> }): JSX.Element {
  return (
    <p class="unseen" role="status" aria-live="polite">
      {text.value}
    </p>
  );
}

function gestureOf(gestures: Gestures, event: PointerEvent, at: Point): Gesture {
  if (event.type === "pointerdown") return gestures.down(event.pointerId, at);
  if (event.type === "pointermove") return gestures.move(event.pointerId, at);
  if (event.type === "pointerup") return gestures.up(event.pointerId, at);
  return gestures.cancel(event.pointerId);
}

/** The main button or a finger on the canvas itself, not on the buttons beside it. */
function isOnPicture(event: PointerEvent | MouseEvent): boolean {
  return event.button === 0 && event.target instanceof HTMLCanvasElement;
}

function capture(event: PointerEvent): void {
  // A finger stays free to scroll; a mouse may leave the picture while it drags.
  if (event.pointerType === "mouse" && event.target instanceof Element) event.target.setPointerCapture(event.pointerId);
}

function picture(place: HTMLElement | null): HTMLCanvasElement | null {
  return place?.querySelector("canvas:not(.tensor-overlay)") ?? null;
}

function canvasBox(place: HTMLElement | null): DOMRect | null {
  return picture(place)?.getBoundingClientRect() ?? null;
}

interface Latest {
  readonly current: PlotProps;
}

function keepAbove(
  place: HTMLElement | null,
  above: HTMLCanvasElement | null,
  latest: Latest,
): (() => void) | undefined {
  const below = picture(place);
  if (!place || !above || !below) return undefined;
  const draw = (): void => {
    const palette = paletteOf(theme.value);
    const context = above.getContext("2d");
    const [width, height] = [below.clientWidth, below.clientHeight];
    if (!context || width === 0) return;
    context.setTransform(above.width / width, 0, 0, above.height / height, 0, 0);
    context.clearRect(0, 0, width, height);
    latest.current.overlay(context, width, height, palette);
  };
  fit(above, below);
  const stopDrawing = effect(draw);
  const stopSizing = onSize(below, () => {
    fit(above, below);
    draw();
  });
  return () => {
    stopDrawing();
    stopSizing();
  };
}

function fit(above: HTMLCanvasElement, below: HTMLCanvasElement): void {
  const ratio = window.devicePixelRatio || 1;
  above.width = Math.round(below.clientWidth * ratio);
  above.height = Math.round(below.clientHeight * ratio);
  above.style.left = `${below.offsetLeft}px`;
  above.style.top = `${below.offsetTop}px`;
  above.style.width = `${below.clientWidth}px`;
  above.style.height = `${below.clientHeight}px`;
}

/** A finger that was lifted goes on pointing, until another one is put down elsewhere. */
function listenToTouchBeside(place: HTMLElement | null, latest: Latest): () => void {
  const touch = (event: PointerEvent): void => {
    const isBeside = event.target instanceof Node && !place?.contains(event.target);
    if (event.pointerType === "touch" && isBeside) latest.current.onLeave();
  };
  document.addEventListener("pointerdown", touch);
  return () => document.removeEventListener("pointerdown", touch);
}

/** Not through a prop: to keep the page from zooming or going back, the listener must not be passive. */
function listenToWheel(place: HTMLElement | null, latest: Latest): (() => void) | undefined {
  if (!place) return undefined;
  const turn = (event: WheelEvent): void => {
    const box = canvasBox(place);
    const isAcross = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!box || !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || isAcross)) return;
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    const across = isAcross && !event.shiftKey ? event.deltaX * unit : 0;
    // With the shift key some browsers turn the wheel's movement to the side.
    latest.current.onWheel(at, across ? 0 : (event.deltaY || event.deltaX) * unit, across, box);
  };
  place.addEventListener("wheel", turn, { passive: false });
  return () => place.removeEventListener("wheel", turn);
}
