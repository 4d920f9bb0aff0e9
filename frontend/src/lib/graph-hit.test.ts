import { expect, test } from "vitest";
import { graphTree } from "./graph-build";
import { residual } from "./graph-cases";
import { boxAt, boxBeside, curvePoint, distanceTo, heldTitleAt, lineAt, titleTop } from "./graph-hit";
import { type Scene, sceneOf } from "./graph-scene";
import { isContainer } from "./graph-tree";

function scene(): Scene {
  const tree = graphTree(residual([2]));
  const sizes = { sizeOf: () => ({ width: 180, height: 50 }), title: 26, padding: 14, leastWidth: () => 120 };
  return sceneOf(tree, new Set(tree.items.filter(isContainer).map(({ id }) => id)), sizes);
}

test("the innermost box is hit, a frame only beside what it holds", () => {
  const found = scene();
  const box = found.boxes.find(({ item }) => item.module?.name === "layer1.0.conv2");
  expect(box && boxAt(found, box.x + 5, box.y + 5)).toBe(box);
  const frame = found.byItem.get(box?.item.parent ?? -1);
  expect(frame && boxAt(found, frame.x + 2, frame.y + 2)).toBe(frame);
  expect(boxAt(found, -50, -50)).toBe(null);
});

test("a line is hit on its curve and not beside it", () => {
  const found = scene();
  const line = found.lines[0];
  const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = line?.points.slice(2, 6) ?? [];
  const [x, y] = curvePoint(x0, y0, x1, y1, 0.5);
  expect(lineAt(found, x, y, 4)).toBe(line);
  expect(lineAt(found, x + 5000, y, 4)).toBe(null);
});

test("the distance to a straight piece is the usual one", () => {
  expect(distanceTo([0, 0, 0, 10], 3, 5, 10)).toBe(3);
  expect(distanceTo([0, 0, 0, 10], 0, 14, 10)).toBe(4);
});

test("going down and up again comes back to the same box in a chain", () => {
  const found = scene();
  const start = found.boxes.find(({ item }) => item.module?.name === "conv1");
  const below = start && boxBeside(found, start, "down");
  expect(below?.item.module?.name).toBe("relu");
  expect(below && boxBeside(found, below, "up")).toBe(start);
  expect(start && boxBeside(found, start, "left")).not.toBe(start);
});

test("the title of a frame stays in sight below those around it, and is hit there", () => {
  const found = scene();
  const frame = found.boxes.find(({ item }) => item.module?.name === "layer1.1");
  if (!frame) throw new Error("there is a second block");
  const camera = { x: 0, y: frame.y + 100, scale: 0.8 };
  const top = titleTop(frame, camera, 26);
  expect(top).toBe(camera.y + frame.depth * 26);
  expect(heldTitleAt(found, camera, 26, frame.x + 5, top + 5)).toBe(frame);
  const away = { ...camera, y: frame.y + frame.height };
  expect(titleTop(frame, away, 26)).toBe(frame.y + frame.height - 26);
  expect(heldTitleAt(found, { ...camera, y: -500 }, 26, frame.x + 5, frame.y + 5)).toBe(null);
});
