import type { Palette } from "../../charts/palette";
import type { Area, Camera, Extent } from "../../lib/graph-camera";
import type { Scene } from "../../lib/graph-scene";
import { rounded } from "./paint-boxes";
import { fillOf, type Picture } from "./picture";

const MOST_WIDTH = 150;
const MOST_HEIGHT = 170;
const MARGIN = 12;
const PADDING = 6;
/** They lie below. */
const ZOOM_BUTTONS = 38;

export interface MapPlace extends Area {
  readonly scale: number;
}

/** Where the small map of the whole lies on the canvas; null where all of the picture is seen anyway. */
export function mapPlace(scene: Scene, camera: Camera, screen: Extent): MapPlace | null {
  const isWhole = scene.width * camera.scale <= screen.width && scene.height * camera.scale <= screen.height;
  if (isWhole || screen.width < 520 || scene.boxes.length < 2) return null;
  const scale = Math.min(MOST_WIDTH / scene.width, MOST_HEIGHT / scene.height);
  const [width, height] = [
    Math.max(scene.width * scale, 28) + 2 * PADDING,
    Math.max(scene.height * scale, 28) + 2 * PADDING,
  ];
  return { scale, width, height, x: screen.width - width - MARGIN, y: screen.height - height - MARGIN - ZOOM_BUTTONS };
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
    context.fillRect(
      box.x * place.scale,
      box.y * place.scale,
      Math.max(box.width * place.scale, least),
      Math.max(box.height * place.scale, least),
    );
  }
  context.strokeStyle = palette.accent;
  context.lineWidth = 1.5;
  const seen = seenOn(place, camera, screen);
  context.strokeRect(seen.x, seen.y, seen.width, seen.height);
  context.restore();
}

/** The part of the picture on the screen, as far as it lies on the map. */
function seenOn(place: MapPlace, camera: Camera, screen: Extent): Area {
  const clip = (from: number, size: number, room: number): readonly [number, number] => {
    const [start, end] = [Math.max(from, -PADDING + 1), Math.min(from + size, room - PADDING - 1)];
    return [start, Math.max(end - start, 0)];
  };
  const [x, width] = clip(camera.x * place.scale, (screen.width / camera.scale) * place.scale, place.width);
  const [y, height] = clip(camera.y * place.scale, (screen.height / camera.scale) * place.scale, place.height);
  return { x, y, width, height };
}
