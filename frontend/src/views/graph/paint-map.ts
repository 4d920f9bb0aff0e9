import type { Palette } from "../../charts/palette";
import type { Area, Camera, Extent } from "../../lib/graph-camera";
import type { Scene } from "../../lib/graph-scene";
import { rounded } from "./paint-boxes";
import { fillOf, type Picture } from "./picture";

const MOST_WIDTH = 150;
const MOST_HEIGHT = 170;
const MARGIN = 12;
const PADDING = 6;

export interface MapPlace extends Area {
  readonly scale: number;
}

/** Where the small map of the whole lies on the canvas; null where all of the picture is seen anyway. */
export function mapPlace(scene: Scene, camera: Camera, screen: Extent): MapPlace | null {
  const isWhole = scene.width * camera.scale <= screen.width && scene.height * camera.scale <= screen.height;
  if (isWhole || screen.width < 520 || scene.boxes.length < 2) return null;
  const scale = Math.min(MOST_WIDTH / scene.width, MOST_HEIGHT / scene.height);
  const [width, height] = [Math.max(scene.width * scale, 28) + 2 * PADDING, Math.max(scene.height * scale, 28) + 2 * PADDING];
  return { scale, width, height, x: MARGIN, y: screen.height - height - MARGIN };
}

/** The point of the picture that a point on the map stands for. */
export function mapPoint(place: MapPlace, x: number, y: number): { readonly x: number; readonly y: number } {
  return { x: (x - place.x - PADDING) / place.scale, y: (y - place.y - PADDING) / place.scale };
}

export function drawMap(context: CanvasRenderingContext2D, screen: Extent, picture: Picture, palette: Palette): void {
  const { scene, camera, colours } = picture;
  const place = mapPlace(scene, camera, screen);
  if (!place) return;
  context.save();
  context.globalAlpha = 0.94;
  context.fillStyle = palette.surface;
  context.strokeStyle = palette.line;
  rounded(context, place.x, place.y, place.width, place.height, 6);
  context.fill();
  context.stroke();
  context.globalAlpha = 1;
  context.clip();
  context.translate(place.x + PADDING, place.y + PADDING);
  for (const box of scene.boxes) {
    const value = colours.health.get(box.item.id)?.value ?? NaN;
    const fill = box.isOpen ? null : fillOf(value, colours.scale, palette);
    context.fillStyle = fill?.ground ?? (box.isOpen ? palette.sunken : palette.line);
    const least = box.isOpen ? 0 : 1.5;
    context.fillRect(box.x * place.scale, box.y * place.scale, Math.max(box.width * place.scale, least), Math.max(box.height * place.scale, least));
  }
  context.strokeStyle = palette.accent;
  context.lineWidth = 1.5;
  context.strokeRect(camera.x * place.scale, camera.y * place.scale, (screen.width / camera.scale) * place.scale, (screen.height / camera.scale) * place.scale);
  context.restore();
}
