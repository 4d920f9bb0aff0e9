/** What lies under the pointer, and what lies beside a box. */

import type { Camera } from "./graph-camera";
import type { Scene, SceneBox, SceneLine } from "./graph-scene";

/** The innermost box at a point; of an open frame only its title and border count. */
export function boxAt(scene: Scene, x: number, y: number): SceneBox | null {
  for (let place = scene.boxes.length - 1; place >= 0; place--) {
    const box = scene.boxes[place];
    if (box && x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height) return box;
  }
  return null;
}

/** Where the title of a frame is drawn: at its top, or held in sight below those of the frames around it. */
export function titleTop(box: SceneBox, camera: Camera, title: number): number {
  const height = titleHeight(camera, title);
  return Math.min(Math.max(box.y, camera.y + box.depth * height), box.y + box.height - height);
}

/** Enlarged, titles keep their size on the screen. */
export function titleHeight(camera: Camera, title: number): number {
  return title / Math.max(camera.scale, 1);
}

/** The frame whose title, held in sight above other boxes, is at a point. */
export function heldTitleAt(scene: Scene, camera: Camera, title: number, x: number, y: number): SceneBox | null {
  const height = titleHeight(camera, title);
  const isAt = (box: SceneBox): boolean => {
    const top = titleTop(box, camera, title);
    return box.isOpen && top > box.y && y >= top && y <= top + height && x >= box.x && x <= box.x + box.width;
  };
  return scene.boxes.find(isAt) ?? null;
}

/** The line nearest to a point, when it is as near as `reach`. */
export function lineAt(scene: Scene, x: number, y: number, reach: number): SceneLine | null {
  let [best, nearest]: [SceneLine | null, number] = [null, reach];
  for (const line of scene.lines) {
    const distance = distanceTo(line.points, x, y, nearest);
    if (distance < nearest) [best, nearest] = [line, distance];
  }
  return best;
}

const CURVE_STEPS = 10;

/** From a point to a line, or anything greater than `most` where it is farther. */
export function distanceTo(points: readonly number[], x: number, y: number, most: number): number {
  let nearest = Infinity;
  for (let at = 0; at + 3 < points.length; at += 2) {
    const [x0, y0, x1, y1] = [points[at] ?? 0, points[at + 1] ?? 0, points[at + 2] ?? 0, points[at + 3] ?? 0];
    if (y < Math.min(y0, y1) - most || y > Math.max(y0, y1) + most) continue;
    if (x < Math.min(x0, x1) - most || x > Math.max(x0, x1) + most) continue;
    const isStraight = at % 4 === 0;
    const steps = isStraight ? 1 : CURVE_STEPS;
    let [fromX, fromY] = [x0, y0];
    for (let step = 1; step <= steps; step++) {
      const [toX, toY] = curvePoint(x0, y0, x1, y1, step / steps);
      nearest = Math.min(nearest, distanceToSegment(x, y, fromX, fromY, toX, toY));
      [fromX, fromY] = [toX, toY];
    }
  }
  return nearest;
}

/** The curve that leaves one end and reaches the other vertically. */
export function curvePoint(x0: number, y0: number, x1: number, y1: number, t: number): [number, number] {
  const middle = (y0 + y1) / 2;
  const u = 1 - t;
  const mix = (a: number, b: number, c: number, d: number): number =>
    u ** 3 * a + 3 * u * u * t * b + 3 * u * t * t * c + t ** 3 * d;
  return [mix(x0, x0, x1, x1), mix(y0, middle, middle, y1)];
}

function distanceToSegment(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.min(Math.max(((x - x0) * dx + (y - y0) * dy) / length, 0), 1);
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}

export type Direction = "up" | "down" | "left" | "right";

/** The next box in a direction: near, and rather straight ahead than aside. */
export function boxBeside(scene: Scene, from: SceneBox, direction: Direction): SceneBox | null {
  const centre = (box: SceneBox): [number, number] => [
    box.x + box.width / 2,
    box.isOpen ? box.y : box.y + box.height / 2,
  ];
  const [x, y] = centre(from);
  let [best, least]: [SceneBox | null, number] = [null, Infinity];
  for (const box of scene.boxes) {
    if (box === from) continue;
    const [dx, dy] = [centre(box)[0] - x, centre(box)[1] - y];
    const [ahead, aside] =
      direction === "up" ? [-dy, dx] : direction === "down" ? [dy, dx] : direction === "left" ? [-dx, dy] : [dx, dy];
    const cost = ahead + 2.5 * Math.abs(aside);
    if (ahead > 1 && cost < least) [best, least] = [box, cost];
  }
  return best;
}
