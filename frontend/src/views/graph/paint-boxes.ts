import type { Palette } from "../../charts/palette";
import { formatNumber, formatPercent, formatShort } from "../../lib/format";
import { stackTitle } from "../../lib/graph-fold";
import type { Health, Measure } from "../../lib/graph-health";
import type { SceneBox } from "../../lib/graph-scene";
import { shapesText } from "../../lib/graph-text";
import { type GraphTree, isContainer, isUnused, type Item } from "../../lib/graph-tree";
import { type Fill, fillOf, type Picture } from "./picture";
import { STRIP_HEIGHT } from "./sizes";
import { drawText, fontOf, textWidth } from "./text";

const RADIUS = 8;
/** Below, only one line of text can be read, and below the other none. */
const READABLE = 0.5;
const VISIBLE = 0.32;
const MOST_CELLS = 48;

type Context = CanvasRenderingContext2D;

export function drawBox(context: Context, box: SceneBox, picture: Picture, palette: Palette): void {
  const { item } = box;
  if (item.kind === "join") return drawJoin(context, box, picture, palette);
  if (item.kind === "input" || item.kind === "output") return drawTerminal(context, box, picture, palette);
  const health = picture.colours.health.get(item.id) ?? { value: NaN, parts: [] };
  const isFar = picture.camera.scale < READABLE;
  context.globalAlpha = isUnused(picture.tree.items, item) ? 0.5 : 1;
  if (isContainer(item)) drawSheets(context, box, palette);
  drawGround(context, box, palette, !isUnused(picture.tree.items, item));
  if (isFar) drawFar(context, box, health, picture, palette);
  else drawNear(context, box, health, picture, palette);
  context.globalAlpha = 1;
  drawBorder(context, box, picture, palette);
}

/** Sheets below say that there is more inside. */
function drawSheets(context: Context, { x, y, width, height }: SceneBox, palette: Palette): void {
  context.fillStyle = palette.surface;
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  for (const by of [6, 3]) {
    rounded(context, x + by, y + by, width, height, RADIUS);
    context.fill();
    context.stroke();
  }
}

function drawGround(context: Context, { x, y, width, height }: SceneBox, palette: Palette, called: boolean): void {
  context.fillStyle = palette.surface;
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.setLineDash(called ? [] : [4, 3]);
  rounded(context, x, y, width, height, RADIUS);
  context.fill();
  context.stroke();
  context.setLineDash([]);
}

function drawBorder(context: Context, box: SceneBox, { selected, hovered, camera }: Picture, palette: Palette): void {
  const isHovered = hovered?.kind === "box" && hovered.id === box.item.id;
  if (selected !== box.item.id && !isHovered) return;
  context.strokeStyle = palette.accent;
  // Of the same strength on the screen, however small the box is drawn.
  context.lineWidth = (selected === box.item.id ? 2.5 : 1.5) / Math.min(camera.scale, 1);
  rounded(context, box.x, box.y, box.width, box.height, RADIUS);
  context.stroke();
}

function drawNear(context: Context, box: SceneBox, health: Health, picture: Picture, palette: Palette): void {
  const { x, y, width, height, item } = box;
  const { tree } = picture;
  const right = rightText(item);
  const rightWidth = drawText(context, right, x + width - 10, y + 16, {
    font: fontOf(palette, 11),
    colour: palette.muted,
    room: 70,
    align: "right",
  });
  const room = width - 30 - rightWidth;
  const named = { font: fontOf(palette, 12), colour: palette.muted };
  const label = item.module ? item.label : "";
  const reserved = Math.min(textWidth(context, label, named.font) + 8, room * 0.35);
  const used = drawText(context, titleOf(tree, item), x + 10, y + 16, {
    font: fontOf(palette, 12.5, 600),
    colour: palette.text,
    room: room - reserved,
  });
  drawText(context, label, x + 16 + used, y + 16, { ...named, room: room - used - 4 });
  const second = secondLine(tree, item);
  drawText(context, second, x + 10, y + 31, { font: fontOf(palette, 11), colour: palette.muted, room: width - 64 });
  const parameters = parametersOf(tree, item);
  if (parameters > 0) {
    drawText(context, formatShort(parameters), x + width - 10, y + 31, {
      font: fontOf(palette, 11),
      colour: palette.muted,
      room: 50,
      align: "right",
    });
  }
  drawStrip(context, box, health, picture, palette, y + height - STRIP_HEIGHT, STRIP_HEIGHT);
}

function rightText(item: Item): string {
  if (item.kind === "call") return `call ${item.call}`;
  const calls = item.module?.calls ?? 0;
  if (calls > 1) return `× ${calls} calls`;
  return isContainer(item) ? `${item.modules} ▸` : "";
}

/** Recorded is the output of the last call; of the others we know what was read by somebody who read nothing else. */
function callShape(tree: GraphTree, item: Item): string {
  const alone = tree.links.find(
    (link) => link.source === item.id && tree.links.filter(({ target }) => target === link.target).length === 1,
  );
  return shapesText(alone?.edges.slice(0, 1) ?? []);
}

export function titleOf(tree: GraphTree, item: Item): string {
  return item.module?.class_name ?? (item.kind === "stack" ? stackTitle(tree, item) : item.label);
}

function secondLine(tree: GraphTree, item: Item): string {
  if (item.order === Infinity) return isUnused(tree.items, item) ? "never called" : "calls not seen";
  if (item.kind === "stack") return item.label;
  return item.kind === "call" ? callShape(tree, item) : shapesText(item.module?.outputs ?? []);
}

export function parametersOf(tree: GraphTree, item: Item): number {
  if (item.kind !== "stack") return item.module?.parameters ?? 0;
  return item.children.reduce((sum, id) => sum + childParameters(tree, id), 0);
}

function childParameters(tree: GraphTree, id: number): number {
  const child = tree.items[id];
  return child ? parametersOf(tree, child) : 0;
}

/** One cell for each module inside that has a value, in the order of execution; of very many the greatest. */
function drawStrip(
  context: Context,
  box: SceneBox,
  health: Health,
  picture: Picture,
  palette: Palette,
  top: number,
  height: number,
): void {
  const { scale, measure } = picture.colours;
  context.save();
  rounded(context, box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1, RADIUS - 0.5);
  context.clip();
  const cells = cellsOf(health.parts);
  const cell = box.width / Math.max(cells.length, 1);
  let fill: Fill | null = null;
  for (const [place, value] of cells.entries()) {
    fill = fillOf(value, scale, palette);
    if (!fill) continue;
    context.fillStyle = fill.ground;
    const gap = cells.length > 1 ? Math.min(1, cell / 6) : 0;
    context.fillRect(box.x + place * cell, top, cell - (place < cells.length - 1 ? gap : 0), height);
  }
  context.restore();
  if (height !== STRIP_HEIGHT || cells.length > 1) return;
  const text = fill ? valueText(measure, health.value) : "";
  drawText(context, text, box.x + 10, top + 9.5, {
    font: fontOf(palette, 10, 500),
    colour: fill?.text ?? palette.faint,
    room: box.width - 20,
  });
}

function cellsOf(parts: readonly number[]): number[] {
  if (parts.length <= MOST_CELLS) return [...parts];
  const cells = new Array<number>(MOST_CELLS).fill(-Infinity);
  for (const [place, value] of parts.entries()) {
    const cell = Math.floor((place * MOST_CELLS) / parts.length);
    cells[cell] = Math.max(cells[cell] ?? -Infinity, value);
  }
  return cells;
}

export function valueText(measure: Measure, value: number): string {
  if (Number.isNaN(value)) return "–";
  if (measure.scale === "share") return formatPercent(value);
  return measure.combine === "sum" ? formatShort(value) : formatNumber(value, 3);
}

/** From afar colours are all that can be seen, from a little nearer the title too. */
function drawFar(context: Context, box: SceneBox, health: Health, picture: Picture, palette: Palette): void {
  const hasTitle = picture.camera.scale >= VISIBLE;
  const height = hasTitle ? box.height * 0.4 : box.height;
  drawStrip(context, box, health, picture, palette, box.y + box.height - height, height);
  if (!hasTitle) return;
  const middle = box.y + (health.parts.length > 0 ? box.height * 0.3 : box.height / 2);
  drawText(context, titleOf(picture.tree, box.item), box.x + box.width / 2, middle + 8, {
    font: fontOf(palette, 22, 600),
    colour: palette.text,
    room: box.width - 16,
    align: "center",
  });
}

function drawJoin(context: Context, box: SceneBox, { selected, hovered }: Picture, palette: Palette): void {
  const [x, y, radius] = [box.x + box.width / 2, box.y + box.height / 2, box.width / 2];
  const isMarked = selected === box.item.id || (hovered?.kind === "box" && hovered.id === box.item.id);
  context.fillStyle = palette.surface;
  context.strokeStyle = isMarked ? palette.accent : palette.faint;
  context.lineWidth = isMarked ? 2 : 1.2;
  context.beginPath();
  context.arc(x, y, radius - 1, 0, 2 * Math.PI);
  context.fill();
  context.moveTo(x - 4, y);
  context.lineTo(x + 4, y);
  context.moveTo(x, y - 4);
  context.lineTo(x, y + 4);
  context.stroke();
}

function drawTerminal(context: Context, box: SceneBox, picture: Picture, palette: Palette): void {
  context.fillStyle = palette.sunken;
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  rounded(context, box.x, box.y, box.width, box.height, box.height / 2);
  context.fill();
  context.stroke();
  if (picture.camera.scale < VISIBLE) return;
  const shape = terminalShape(picture.tree, box.item);
  const centre = box.x + box.width / 2;
  drawText(context, box.item.label, centre, box.y + 15, {
    font: fontOf(palette, 12, 600),
    colour: palette.text,
    room: box.width - 24,
    align: "center",
  });
  drawText(context, shape, centre, box.y + 29, {
    font: fontOf(palette, 11),
    colour: palette.muted,
    room: box.width - 24,
    align: "center",
  });
}

function terminalShape(tree: GraphTree, item: Item): string {
  const link = tree.links.find(({ source, target }) => source === item.id || target === item.id);
  return shapesText(link?.edges.slice(0, 1) ?? []);
}

export function rounded(context: Context, x: number, y: number, width: number, height: number, radius: number): void {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}
