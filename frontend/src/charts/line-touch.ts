/** What a mouse with Shift, and fingers, do in a line chart: uPlot itself knows dragging over a part to zoom. */

import type { Extent } from "../lib/extent";
import type { LinePlot } from "./line-plot";

/** Shift and drag moves the zoomed part, a finger moves the crosshair, two fingers zoom. */
export function dragAlong(chart: LinePlot): void {
  const { over } = chart.plot;
  const fingers = new Map<number, number>();
  let anchor: readonly number[] = [];
  const at = (event: PointerEvent): number => event.clientX - over.getBoundingClientRect().left;
  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    fingers.set(event.pointerId, at(event));
    anchor = [...fingers.values()].map((left) => chart.plot.posToVal(left, "x"));
    if (fingers.size === 1) chart.pointAtPixel(at(event));
  });
  over.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) chart.pointAtPixel(at(event));
    else pinch(chart, anchor, [...fingers.values()], over.clientWidth);
  });
  for (const end of ["pointerup", "pointercancel"] as const) {
    over.addEventListener(end, (event) => void fingers.delete(event.pointerId));
  }
  // In the capturing phase, before uPlot begins to select.
  over.addEventListener("mousedown", (event) => event.shiftKey && pan(chart, event), { capture: true });
}

function pan(chart: LinePlot, start: MouseEvent): void {
  start.stopImmediatePropagation();
  const [first, last] = chart.rangeX;
  const scale = (last - first) / chart.plot.over.clientWidth;
  const move = (event: MouseEvent): void => {
    const by = (start.clientX - event.clientX) * scale;
    chart.zoomTo([first + by, last + by]);
  };
  document.addEventListener("mousemove", move);
  document.addEventListener("mouseup", () => document.removeEventListener("mousemove", move), { once: true });
}

/** The range that puts what was under the fingers at first under them again. */
function pinch(chart: LinePlot, anchor: readonly number[], now: readonly number[], width: number): void {
  const [a = 0, b = 0] = anchor;
  const [left = 0, right = 0] = now;
  if (Math.abs(right - left) < 12) return;
  const scale = (b - a) / (right - left);
  const range: Extent = [a - left * scale, a - left * scale + width * scale];
  if (scale > 0) chart.zoomTo(range);
}
