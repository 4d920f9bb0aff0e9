/** Keys on the heat map: a cursor that goes from cell to cell. */

import type { Point } from "../../lib/gestures";
import { rowsInSight, scrollFor, stepToX, type HeatLayout } from "../../lib/heat-layout";
import { columnAt } from "../../lib/heat";
import type { Row } from "../../lib/row-tree";
import type { HeatScene } from "./heat-picture";
import type { PlotSize } from "./plot";
import type { StepMoves } from "./steps";

export interface HeatCursor {
  readonly row: number;
  readonly step: number;
  /** On the canvas. */
  readonly at: Point;
  readonly size: PlotSize;
  readonly byKey: boolean;
}

export interface HeatActions {
  readonly moves: StepMoves;
  readonly size: PlotSize;
  readonly scroll: number;
  readonly onSelect: (row: Row, step: number) => void;
  readonly onToggle: (row: Row) => void;
}

const ROW_KEYS: Readonly<Record<string, number>> = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 };
const COLUMN_KEYS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };

/** Where the cursor is after a key; null when the key means nothing here. */
export function heatKey(
  event: KeyboardEvent,
  cursor: HeatCursor | null,
  scene: HeatScene,
  layout: HeatLayout,
  actions: HeatActions,
): HeatCursor | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const now = cursor ?? start(scene, layout, actions);
  const { table, rows } = scene;
  const last = table.first.length - 1;
  const column = Math.max(0, columnAt(table.first, now.step));
  const go = (row: number, to: number): HeatCursor => {
    const kept = Math.min(Math.max(row, 0), rows.length - 1);
    const step = table.first[Math.min(Math.max(to, 0), last)] ?? now.step;
    return placed(kept, step, scene, layout, actions);
  };
  const byRow = ROW_KEYS[event.key];
  const byColumn = COLUMN_KEYS[event.key];
  if (byRow !== undefined) return go(cursor ? now.row + byRow : now.row, column);
  if (byColumn !== undefined) return go(now.row, cursor ? column + byColumn * (event.shiftKey ? 10 : 1) : column);
  if (event.key === "Home") return go(now.row, 0);
  if (event.key === "End") return go(now.row, last);
  return act(event, now, scene, actions) ? now : null;
}

function start(scene: HeatScene, layout: HeatLayout, actions: HeatActions): HeatCursor {
  return placed(rowsInSight(layout, actions.scroll).from, scene.table.first.at(-1) ?? 0, scene, layout, actions);
}

function placed(row: number, step: number, scene: HeatScene, layout: HeatLayout, actions: HeatActions): HeatCursor {
  const y = (row + 0.5) * layout.rowHeight - scrollFor(layout, row, actions.scroll);
  const at = { x: stepToX(layout, scene.window, step + 0.5), y: Math.min(y, layout.height - 1) };
  return { row, step, at, size: actions.size, byKey: true };
}

function act(event: KeyboardEvent, now: HeatCursor, scene: HeatScene, actions: HeatActions): boolean {
  const row = scene.rows[now.row];
  if (!row) return false;
  if (event.key === "Enter" || event.key === " ") {
    if (row.kind === "group") actions.onToggle(row);
    else actions.onSelect(row, now.step);
  } else if (event.key === "+" || event.key === "=") actions.moves.zoom(now.step, 0.6);
  else if (event.key === "-") actions.moves.zoom(now.step, 1 / 0.6);
  else if (event.key === "0") actions.moves.reset();
  else return false;
  return true;
}
