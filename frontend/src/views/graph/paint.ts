import type { Palette } from "../../charts/palette";
import { formatShort } from "../../lib/format";
import type { Camera } from "../../lib/graph-camera";
import { curvePoint, titleHeight, titleTop } from "../../lib/graph-hit";
import type { SceneBox, SceneLine } from "../../lib/graph-scene";
import { shapeText } from "../../lib/graph-text";
import { inside, isUnused, type Item } from "../../lib/graph-tree";
import { drawBox, parametersOf, rounded, titleOf } from "./paint-boxes";
import type { Picture } from "./picture";
import { SIZES } from "./sizes";
import { drawText, fontOf } from "./text";

type Context = CanvasRenderingContext2D;

/** From here on there is room for the shapes of what flows. */
const ROOM_FOR_SHAPES = 1.05;
const LEAST_SCALE_OF_TITLES = 0.24;
const TITLE_SIZE = 12.5;
const MOST_TITLE_SIZE = 22;

interface Sight {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export function drawPicture(context: Context, width: number, height: number, picture: Picture, palette: Palette): void {
  const { camera, scene } = picture;
  const sight = sightOf(camera, width, height);
  context.save();
  context.scale(camera.scale, camera.scale);
  context.translate(-camera.x, -camera.y);
  context.textBaseline = "alphabetic";
  const boxes = scene.boxes.filter((box) => isSeen(box, sight));
  for (const box of boxes) if (box.isOpen) drawFrame(context, box, picture, palette);
  const marked = markedLines(picture);
  const lines = scene.lines.filter((line) => isLineSeen(line, sight));
  for (const line of lines) if (!marked.has(line)) drawLine(context, line, palette.line, 1.3, picture);
  for (const line of lines) if (marked.has(line)) drawLine(context, line, palette.accent, 2.2, picture);
  for (const box of boxes) if (!box.isOpen) drawBox(context, box, picture, palette);
  const labels = new Set<string>();
  for (const line of lines)
    if (marked.has(line) || camera.scale >= ROOM_FOR_SHAPES) drawShape(context, line, labels, picture, palette);
  // Titles of outer frames are held above those of inner ones, so they come last.
  for (const box of [...boxes].reverse()) if (box.isOpen) drawTitle(context, box, sight, picture, palette);
  context.restore();
}

function sightOf(camera: Camera, width: number, height: number): Sight {
  return {
    left: camera.x,
    top: camera.y,
    right: camera.x + width / camera.scale,
    bottom: camera.y + height / camera.scale,
  };
}

function isSeen(box: SceneBox, sight: Sight): boolean {
  const margin = 12;
  return (
    box.x - margin < sight.right &&
    box.x + box.width + margin > sight.left &&
    box.y - margin < sight.bottom &&
    box.y + box.height + margin > sight.top
  );
}

function isLineSeen({ points }: SceneLine, sight: Sight): boolean {
  let [left, right] = [Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    left = Math.min(left, points[at] ?? 0);
    right = Math.max(right, points[at] ?? 0);
  }
  const [top, bottom] = [points[1] ?? 0, points.at(-1) ?? 0];
  return left < sight.right && right > sight.left && top < sight.bottom && bottom > sight.top;
}

function drawFrame(context: Context, box: SceneBox, { selected, hovered, camera }: Picture, palette: Palette): void {
  const isSelected = selected === box.item.id;
  const isHovered = hovered?.kind === "box" && hovered.id === box.item.id;
  context.fillStyle = box.depth % 2 === 0 ? palette.sunken : palette.surface;
  context.strokeStyle = isSelected || isHovered ? palette.accent : palette.line;
  context.lineWidth = (isSelected ? 2.5 : 1) / Math.min(camera.scale, 1);
  context.globalAlpha = box.depth % 2 === 0 ? 0.72 : 1;
  rounded(context, box.x, box.y, box.width, box.height, 10);
  context.fill();
  context.globalAlpha = 1;
  context.stroke();
}

/** The title stays in sight as long as its frame is; enlarged, it keeps its size on the screen. */
function drawTitle(context: Context, box: SceneBox, sight: Sight, picture: Picture, palette: Palette): void {
  const { scale } = picture.camera;
  if (scale < LEAST_SCALE_OF_TITLES) return;
  const unit = 1 / Math.max(scale, 1);
  const height = titleHeight(picture.camera, SIZES.title);
  const size = scale < 1 ? Math.min(TITLE_SIZE / scale, MOST_TITLE_SIZE) : TITLE_SIZE * unit;
  const y = titleTop(box, picture.camera, SIZES.title);
  const left = Math.min(Math.max(box.x, sight.left), box.x + box.width - SIZES.leastWidth(box.item) * unit);
  const ground = box.depth % 2 === 0 ? palette.sunken : palette.surface;
  if (y > box.y) {
    context.fillStyle = ground;
    context.fillRect(box.x + 1, y, box.width - 2, height);
  }
  const { item } = box;
  const room = box.x + box.width - left - 40 * unit;
  const colour = isUnused(picture.tree.items, item) ? palette.faint : palette.text;
  const name = item.kind === "stack" ? titleOf(picture.tree, item) : item.label;
  const base = y + 20 * unit;
  const used = drawText(context, `▾ ${name}`, left + 12 * unit, base, {
    font: fontOf(palette, size, 600),
    colour,
    room,
    halo: ground,
  });
  drawText(context, titleDetail(picture, item, name), left + 20 * unit + used, base, {
    font: fontOf(palette, size * 0.9),
    colour: palette.muted,
    room: room - used,
    halo: ground,
  });
}

function titleDetail({ tree }: Picture, item: Item, name: string): string {
  const detail = item.kind === "stack" ? item.label : (item.module?.class_name ?? "");
  const parameters = parametersOf(tree, item);
  return [detail === name ? "" : detail, parameters > 0 ? formatShort(parameters) : ""].filter(Boolean).join(" · ");
}

function markedLines({ tree, scene, selected, hovered }: Picture): ReadonlySet<SceneLine> {
  const marked = new Set<SceneLine>();
  if (hovered?.kind === "line") {
    const { source, targets } = hovered.line;
    for (const line of scene.lines)
      if (line.source === source && line.targets.some((id) => targets.includes(id))) marked.add(line);
  }
  const ids = new Set<number>();
  for (const id of [selected, hovered?.kind === "box" ? hovered.id : null]) {
    if (id === null || (scene.byItem.get(id)?.isOpen && id !== selected)) continue;
    for (const each of inside(tree.items, id)) ids.add(each);
  }
  for (const line of scene.lines) {
    const [leaves, enters] = [ids.has(line.source), line.targets.filter((id) => ids.has(id)).length];
    if (leaves ? enters < line.targets.length : enters > 0) marked.add(line);
  }
  return marked;
}

function drawLine(context: Context, line: SceneLine, colour: string, width: number, { camera }: Picture): void {
  const { points } = line;
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = width / Math.min(Math.max(camera.scale, 0.35), 1);
  context.setLineDash(line.goesUp ? [6, 4] : []);
  context.beginPath();
  context.moveTo(points[0] ?? 0, points[1] ?? 0);
  for (let at = 2; at + 1 < points.length; at += 2) {
    const [x0, y0, x1, y1] = [points[at - 2] ?? 0, points[at - 1] ?? 0, points[at] ?? 0, points[at + 1] ?? 0];
    const middle = (y0 + y1) / 2;
    if (at % 4 === 2) context.lineTo(x1, y1);
    else context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
  }
  context.stroke();
  context.setLineDash([]);
  if (!line.hasArrow || camera.scale < 0.2) return;
  if (line.goesUp) drawArrow(context, points[0] ?? 0, points[1] ?? 0, 1);
  else drawArrow(context, points.at(-2) ?? 0, points.at(-1) ?? 0, -1);
}

function drawArrow(context: Context, x: number, y: number, direction: 1 | -1): void {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 4.5, y + 8 * direction);
  context.lineTo(x + 4.5, y + 8 * direction);
  context.fill();
}

/** Beside the last bend, where the line is alone; where several meet, one shape is enough. */
function drawShape(context: Context, line: SceneLine, labels: Set<string>, picture: Picture, palette: Palette): void {
  if (!line.hasArrow || picture.camera.scale < 0.45) return;
  const text = lineShape(picture, line);
  const { points } = line;
  const at = points.length - 6;
  const [x, y] = curvePoint(points[at] ?? 0, points[at + 1] ?? 0, points[at + 2] ?? 0, points[at + 3] ?? 0, 0.5);
  const place = `${Math.round(points[points.length - 2] ?? 0)} ${Math.round(points[points.length - 1] ?? 0)}`;
  if (labels.has(place)) return;
  labels.add(place);
  drawText(context, text, x + 6, y + 4, {
    font: fontOf(palette, 10.5),
    colour: palette.muted,
    halo: palette.surface,
    room: 160,
  });
}

const shapes = new WeakMap<SceneLine, string>();

/** The shape of what goes along a line. */
export function lineShape({ tree, scene }: Pick<Picture, "tree" | "scene">, line: SceneLine): string {
  const known = shapes.get(line);
  if (known !== undefined) return known;
  const sources = new Set(inside(tree.items, line.source));
  const targets = new Set(line.targets.flatMap((id) => (scene.byItem.get(id)?.isOpen ? [id] : inside(tree.items, id))));
  const link = tree.links.find(({ source, target }) => sources.has(source) && targets.has(target));
  const text = link?.edges[0] ? shapeText(link.edges[0].shape) : "";
  shapes.set(line, text);
  return text;
}
