/** Draws the heat map: cells as pixels, names and steps as text. */

import type { Palette } from "../../charts/palette";
import type { GroupRule, HeatColours, PixelColumns } from "../../lib/heat";
import { columnEnds, paintRow, pixelColumns, rowWords, type StepWindow } from "../../lib/heat";
import { joinedMarks, type FindingMark } from "../../lib/finding-marks";
import { AXIS_HEIGHT, elided, heatLayout, rowsInSight, stepToX, type HeatLayout } from "../../lib/heat-layout";
import type { HeatScale } from "../../lib/heat-scale";
import type { Row } from "../../lib/row-tree";
import { wordFromCss } from "../../lib/colourmap";
import { shownName } from "../../lib/tensor-name";
import { drawStepAxis, drawStepLine, SMALL_TEXT, type Frame } from "./axes";
import { drawnColumn } from "./heat-cell";
import type { HeatCursor } from "./heat-keys";
import type { PlotSize } from "./plot";
import { rowValues, type HeatTable } from "./heat-table";

export interface HeatScene {
  readonly table: HeatTable;
  readonly rows: readonly Row[];
  /** The width that the names of the rows would like to have. */
  readonly names: number;
  readonly scale: HeatScale;
  readonly colours: HeatColours;
  readonly rule: GroupRule;
  readonly window: StepWindow;
  readonly selected: string | null;
  /** What the checks have found, by the names of tensors. */
  readonly marks: ReadonlyMap<string, FindingMark>;
  /** Colours of rows that were drawn before, by their keys. */
  readonly words: Map<string, Uint32Array>;
}

/** The layout on a canvas of that size, the axis of steps included. */
export function layoutFor({ rows, names }: HeatScene, size: PlotSize): HeatLayout {
  return heatLayout(size.width, size.height - AXIS_HEIGHT, rows.length, names);
}

export function cellFrame(layout: HeatLayout): Frame {
  return { left: layout.labels, top: 0, right: layout.width, bottom: layout.height };
}

export function drawHeat(
  context: CanvasRenderingContext2D,
  layout: HeatLayout,
  scene: HeatScene,
  scroll: number,
  palette: Palette,
): void {
  drawCells(context, layout, scene, scroll, palette);
  const { from, to } = rowsInSight(layout, scroll);
  for (let i = from; i < to; i++) {
    const row = scene.rows[i];
    if (!row) continue;
    const top = i * layout.rowHeight - scroll;
    drawLabel(context, layout, row, top, row.name === scene.selected, palette);
    const mark = markOf(scene, row);
    if (mark) drawMark(context, layout, scene.window, mark, top, palette);
  }
  context.clearRect(0, layout.height, layout.width, AXIS_HEIGHT + 4);
  drawStepAxis(context, cellFrame(layout), scene.window, palette);
}

function drawCells(
  context: CanvasRenderingContext2D,
  layout: HeatLayout,
  scene: HeatScene,
  scroll: number,
  palette: Palette,
): void {
  const ratio = context.canvas.width / layout.width;
  const left = Math.round(layout.labels * ratio);
  const width = Math.max(1, context.canvas.width - left);
  const height = Math.max(1, Math.round(layout.height * ratio));
  const image = context.createImageData(width, height);
  const picture = { words: new Uint32Array(image.data.buffer), width, height };
  const columns = pixelColumns(scene.table.first, scene.table.last, scene.window, width);
  const { from, to } = rowsInSight(layout, scroll);
  const gap = layout.rowHeight >= 8 ? Math.max(1, Math.round(ratio)) : 0;
  for (let i = from; i < to; i++) {
    const row = scene.rows[i];
    if (!row || row.open) continue;
    const top = Math.round((i * layout.rowHeight - scroll) * ratio);
    const bottom = Math.round(((i + 1) * layout.rowHeight - scroll) * ratio) - gap;
    picture.words.fill(wordFromCss(palette.sunken), Math.max(0, top) * width, Math.max(0, bottom) * width);
    paintCells(picture, top, bottom, columns, scene, row, ratio);
  }
  context.putImageData(image, left, 0);
}

type Target = Parameters<typeof paintRow>[0];

function paintCells(
  picture: Target,
  top: number,
  bottom: number,
  columns: PixelColumns,
  scene: HeatScene,
  row: Row,
  ratio: number,
): void {
  const words = scene.words.get(row.key) ?? wordsOf(scene, row);
  scene.words.set(row.key, words);
  paintRow(picture, top, bottom, columns, words, scene.colours, Math.max(2, Math.round(3 * ratio)));
}

function wordsOf(scene: HeatScene, row: Row): Uint32Array {
  const { table, rule } = scene;
  const values = rowValues(table.drawn, table, row, rule);
  const bad = table.bad && rowValues(table.bad, table, row, "farthest");
  return rowWords(values, bad, scene.scale, scene.colours);
}

/** Of a closed group that of all its tensors. */
export function markOf({ marks, table }: HeatScene, row: Row): FindingMark | undefined {
  if (marks.size === 0 || row.open) return undefined;
  return joinedMarks(table.names.slice(row.from, row.to).map((name) => marks.get(name)));
}

/** A dot beside the name, and a line where it began. */
function drawMark(
  context: CanvasRenderingContext2D,
  layout: HeatLayout,
  window: StepWindow,
  mark: FindingMark,
  top: number,
  palette: Palette,
): void {
  const bottom = Math.min(top + layout.rowHeight, layout.height);
  const middle = top + layout.rowHeight / 2;
  context.fillStyle = mark.severity === "error" ? palette.bad : palette.warning;
  if (middle < layout.height) {
    context.beginPath();
    context.arc(6, middle, Math.min(3, layout.rowHeight / 3), 0, 2 * Math.PI);
    context.fill();
  }
  const x = stepToX(layout, window, mark.step);
  if (x < layout.labels || x > layout.width || bottom <= top) return;
  context.fillRect(x - 1, top, 2, bottom - top);
}

const INDENT = 11;
/** Room for the dot of a finding, also beside the triangle of a group. */
const MARGIN = 13;

/** About the width that the longest name takes; letters are measured when they are drawn. */
export function namesWidth(rows: readonly Row[]): number {
  const letters = rows.map(
    (row) => 6.4 * Math.min(row.label.length + (row.kind === "group" ? 8 : 1), 80) + Math.min(row.depth, 5) * INDENT,
  );
  return Math.max(60, ...letters) + MARGIN + 6;
}

/** Where the triangle of a group is, from the left. */
export function caretX(row: Row): number {
  return MARGIN + Math.min(row.depth, 5) * INDENT;
}

function drawLabel(
  context: CanvasRenderingContext2D,
  layout: HeatLayout,
  row: Row,
  top: number,
  selected: boolean,
  palette: Palette,
): void {
  const middle = top + layout.rowHeight / 2;
  if (selected) {
    context.fillStyle = palette.accent;
    context.fillRect(0, top, 3, layout.rowHeight - 1);
  }
  const isGroup = row.kind === "group";
  const left = caretX(row) + (isGroup ? INDENT : 0);
  if (isGroup) drawCaret(context, caretX(row), middle, row.open, palette);
  context.font = `${isGroup || selected ? "600 " : ""}${layout.rowHeight < 15 ? SMALL_TEXT - 1 : SMALL_TEXT}px ${palette.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = isGroup || selected ? palette.text : palette.muted;
  const count = isGroup && !row.open ? ` (${row.to - row.from})` : "";
  const room = layout.labels - left - 6 - context.measureText(count).width;
  const text = elided(shownName(row.label || row.name), room, (part) => context.measureText(part).width);
  // Isolated, so that a name written from the right does not turn its row around.
  context.fillText(`\u2068${text}\u2069${count}`, left, middle + 0.5);
}

function drawCaret(context: CanvasRenderingContext2D, x: number, y: number, open: boolean, palette: Palette): void {
  context.fillStyle = palette.muted;
  context.beginPath();
  if (open) {
    context.moveTo(x - 1, y - 2);
    context.lineTo(x + 7, y - 2);
    context.lineTo(x + 3, y + 3);
  } else {
    context.moveTo(x, y - 4);
    context.lineTo(x + 5, y);
    context.lineTo(x, y + 4);
  }
  context.fill();
}

/** Marks the cell under the cursor, and its row and step. */
export function drawCursor(
  context: CanvasRenderingContext2D,
  layout: HeatLayout,
  scene: HeatScene,
  cursor: HeatCursor,
  scroll: number,
  palette: Palette,
): void {
  const top = cursor.row * layout.rowHeight - scroll;
  context.globalAlpha = 0.1;
  context.fillStyle = palette.accent;
  context.fillRect(0, top, layout.labels, layout.rowHeight);
  context.globalAlpha = 1;
  if (!cursor.byKey && cursor.at.x < layout.labels) return;
  const column = drawnColumn(scene.table, cursor.step);
  const from = column < 0 ? cursor.step : (scene.table.first[column] ?? 0);
  const to = column < 0 ? cursor.step + 1 : (columnEnds(scene.table.first, scene.table.last)[column] ?? 0);
  const [left, right] = [stepToX(layout, scene.window, from), stepToX(layout, scene.window, to)];
  drawStepLine(context, cellFrame(layout), (left + right) / 2, palette.faint);
  const width = Math.max(right - left, 4);
  context.lineWidth = 3;
  context.strokeStyle = palette.surface;
  context.strokeRect((left + right - width) / 2 - 0.5, top - 0.5, width + 1, layout.rowHeight);
  context.lineWidth = 1.5;
  context.strokeStyle = palette.text;
  context.strokeRect((left + right - width) / 2 - 0.5, top - 0.5, width + 1, layout.rowHeight);
}
