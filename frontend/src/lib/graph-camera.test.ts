import { expect, test } from "vitest";
import { type Camera, centred, fitted, kept, opening, panned, revealed, toScene, zoomed } from "./graph-camera";

const SCREEN = { width: 800, height: 600 };

function onScreen(camera: Camera, x: number, y: number): [number, number] {
  return [(x - camera.x) * camera.scale, (y - camera.y) * camera.scale];
}

test("a picture that fits is shown whole, in the middle, and never enlarged", () => {
  const camera = fitted({ width: 200, height: 100 }, SCREEN);
  expect(camera.scale).toBe(1);
  expect(onScreen(camera, 100, 50)).toEqual([400, 300]);
  const large = fitted({ width: 8000, height: 100 }, SCREEN);
  expect(onScreen(large, 0, 0)[0]).toBeGreaterThan(0);
  expect(onScreen(large, 8000, 0)[0]).toBeLessThan(800);
});

test("zooming keeps the point under the pointer where it is", () => {
  const camera = { x: 10, y: 20, scale: 0.7 };
  const before = toScene(camera, 300, 200);
  const after = toScene(zoomed(camera, { x: 300, y: 200 }, 1.9), 300, 200);
  expect(after.x).toBeCloseTo(before.x);
  expect(after.y).toBeCloseTo(before.y);
});

test("zooming ends at the limits without moving the picture", () => {
  let camera: Camera = { x: 0, y: 0, scale: 1 };
  for (let turn = 0; turn < 100; turn++) camera = zoomed(camera, { x: 400, y: 300 }, 2);
  expect(zoomed(camera, { x: 0, y: 0 }, 2)).toEqual(camera);
});

test("a tall picture opens at its beginning, large enough to read", () => {
  const camera = opening({ width: 300, height: 40000 }, SCREEN, { x: 100, y: 0, width: 100, height: 40 });
  expect(camera.scale).toBeGreaterThan(0.6);
  expect(onScreen(camera, 150, 0)[1]).toBeGreaterThanOrEqual(0);
  expect(onScreen(camera, 150, 0)[1]).toBeLessThan(60);
});

test("the picture follows the hand, but never leaves the screen", () => {
  const camera = panned({ x: 0, y: 0, scale: 2 }, 10, -4);
  expect([camera.x, camera.y]).toEqual([-5, 2]);
  const lost = kept(panned(camera, 1e6, 1e6), { width: 300, height: 300 }, SCREEN);
  const [left, top] = onScreen(lost, 0, 0);
  expect(left).toBeLessThan(800);
  expect(top).toBeLessThan(600);
});

test("revealing moves no farther than needed, centring puts it in the middle", () => {
  const area = { x: 50, y: 50, width: 20, height: 20 };
  const camera = { x: 0, y: 0, scale: 1 };
  expect(revealed(camera, area, SCREEN)).toEqual(camera);
  const moved = revealed(camera, { ...area, x: 900 }, SCREEN);
  expect(onScreen(moved, 920, 0)[0]).toBeCloseTo(800 - 24);
  expect(onScreen(centred(camera, area, SCREEN), 60, 60)).toEqual([400, 300]);
});
