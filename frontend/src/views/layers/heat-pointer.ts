/** What mouse and fingers do on the heat map. */

import type { Signal } from "@preact/signals";
import type { Gesture, Point } from "../../lib/gestures";
import { rowAt, xToStep } from "../../lib/heat-layout";
import type { Row } from "../../lib/row-tree";
import type { HeatCursor } from "./heat-keys";
import { layoutFor, type HeatScene } from "./heat-picture";
import type { PlotSize } from "./plot";
import type { StepMoves } from "./steps";

export interface HeatControls {
  readonly scene: HeatScene;
  readonly moves: StepMoves;
  readonly onSelect: (row: Row, step: number) => void;
  readonly onToggle: (row: Row) => void;
  /** The step under the cursor, for other charts. */
  readonly step: Signal<number | null>;
  readonly cursor: Signal<HeatCursor | null>;
  readonly drag: Signal<readonly [from: number, to: number] | null>;
  readonly scroll: Signal<number>;
}

export function heatGesture(controls: HeatControls, happened: Gesture, size: PlotSize): void {
  const { scene, moves, drag } = controls;
  const layout = layoutFor(scene, size);
  const stepOf = (x: number): number => xToStep(layout, scene.window, Math.max(x, layout.labels));
  drag.value = happened.kind === "dragging" ? [happened.from.x, happened.to.x] : null;
  if (happened.kind === "hover") point(controls, happened.at, size);
  else if (happened.kind === "click") click(controls, happened.at, size);
  else if (happened.kind === "pinch") moves.zoom(stepOf(happened.at.x), happened.factor);
  else if (happened.kind === "dragged" && happened.from.x > layout.labels) {
    moves.drag(stepOf(happened.from.x), stepOf(happened.to.x));
  }
}

function point({ scene, scroll, cursor, step }: HeatControls, at: Point, size: PlotSize): void {
  const layout = layoutFor(scene, size);
  const row = rowAt(layout, at.y, scroll.peek());
  const under = Math.floor(xToStep(layout, scene.window, Math.max(at.x, layout.labels)));
  cursor.value = row < 0 ? null : { row, step: under, at, size, byKey: false };
  step.value = row < 0 || at.x < layout.labels ? null : under;
}

function click(controls: HeatControls, at: Point, size: PlotSize): void {
  point(controls, at, size);
  const cursor = controls.cursor.peek();
  const row = cursor && controls.scene.rows[cursor.row];
  if (!row) return;
  if (row.kind === "group") controls.onToggle(row);
  else controls.onSelect(row, cursor.step);
}

/** The cursor of the keys stays where it is when the mouse leaves. */
export function heatLeave({ cursor, step }: HeatControls): void {
  if (!cursor.peek()?.byKey) cursor.value = null;
  step.value = null;
}
