import { expect, test } from "vitest";
import { anyGraph, residual, sequential } from "./graph-cases";
import { expansionAtStart, MOST_BOXES_AT_START, revealing, standIn, toggled } from "./graph-expansion";
import { fold, stackTitle } from "./graph-fold";
import { type Scene, sceneOf, type SceneSizes } from "./graph-scene";
import { graphTree } from "./graph-build";
import { type GraphTree, isContainer } from "./graph-tree";
import type { GraphData } from "../wire/types";

const SIZES: SceneSizes = { sizeOf: () => ({ width: 180, height: 50 }), title: 26, padding: 14, leastWidth: () => 120 };

function folded(graph: GraphData): GraphTree {
  const tree = graphTree(graph);
  fold(tree);
  return tree;
}

function everything(tree: GraphTree): Set<number> {
  return new Set(tree.items.filter(isContainer).map((item) => item.id));
}

function visibleLabels(tree: GraphTree, scene: Scene): string[] {
  return scene.boxes
    .filter((box) => !box.isOpen)
    .map(({ item }) => (item.kind === "stack" ? stackTitle(tree, item) : item.label));
}

/** Boxes that are not inside of one another must be apart; what is inside must be inside. */
function expectOrderly(scene: Scene): void {
  for (const box of scene.boxes) {
    const frame = scene.byItem.get(box.item.parent);
    if (frame) {
      expect(box.x).toBeGreaterThanOrEqual(frame.x - 1e-6);
      expect(box.y).toBeGreaterThanOrEqual(frame.y + SIZES.title - 1e-6);
      expect(box.x + box.width).toBeLessThanOrEqual(frame.x + frame.width + 1e-6);
      expect(box.y + box.height).toBeLessThanOrEqual(frame.y + frame.height + 1e-6);
    }
    for (const other of scene.boxes) {
      if (other === box || other.item.parent !== box.item.parent) continue;
      const isApart =
        box.x + box.width <= other.x + 1e-6 ||
        other.x + other.width <= box.x + 1e-6 ||
        box.y + box.height <= other.y + 1e-6 ||
        other.y + other.height <= box.y + 1e-6;
      expect(isApart).toBe(true);
    }
  }
}

test("ten modules are all shown at the start", () => {
  const tree = folded(sequential(10));
  const scene = sceneOf(tree, expansionAtStart(tree), SIZES);
  expect(visibleLabels(tree, scene)).toEqual(["input", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "output"]);
  expectOrderly(scene);
});

test("a ResNet-152 starts with its blocks, the many equal ones as a stack", () => {
  const tree = folded(residual([3, 8, 36, 3]));
  const scene = sceneOf(tree, expansionAtStart(tree), SIZES);
  expect(scene.boxes.length).toBeLessThanOrEqual(MOST_BOXES_AT_START);
  expect(visibleLabels(tree, scene)).toContain("35 × Bottleneck");
  expectOrderly(scene);
});

test("a module of 500 in a row starts as chapters", () => {
  const tree = folded(sequential(500, ["Conv2d", "BatchNorm2d", "ReLU"]));
  const scene = sceneOf(tree, expansionAtStart(tree), SIZES);
  expect(visibleLabels(tree, scene).filter((label) => label.includes("×")).length).toBeGreaterThan(3);
  expect(scene.boxes.length).toBeLessThanOrEqual(MOST_BOXES_AT_START);
  expectOrderly(scene);
});

test("everything open is orderly too, and no line is lost", () => {
  for (const graph of [residual([2, 3]), anyGraph(120, 160, 1), anyGraph(60, 200, 2), sequential(100)]) {
    const tree = folded(graph);
    const scene = sceneOf(tree, everything(tree), SIZES);
    expectOrderly(scene);
    expect(scene.hidden).toBe(0);
    const reached = new Set(
      scene.lines
        .filter((line) => line.hasArrow)
        .flatMap((line) => line.targets.map((target) => `${line.source} ${target}`)),
    );
    const wanted = new Set(
      tree.links.filter(({ source, target }) => source !== target).map(({ source, target }) => `${source} ${target}`),
    );
    expect([...wanted].filter((pair) => !reached.has(pair))).toEqual([]);
  }
});

test("a line goes on where it passes the border of a frame", () => {
  const tree = folded(residual([2]));
  const scene = sceneOf(tree, everything(tree), SIZES);
  const starts = new Set(scene.lines.map((line) => line.points.slice(0, 2).map(Math.round).join()));
  for (const line of scene.lines) {
    if (!line.hasArrow) expect(starts).toContain(line.points.slice(-2).map(Math.round).join());
  }
});

test("5000 modules start small, and stay a bounded picture", () => {
  const tree = folded(anyGraph(5000, 9000, 3));
  const scene = sceneOf(tree, expansionAtStart(tree), SIZES);
  expect(scene.boxes.length).toBeLessThanOrEqual(70);
  expectOrderly(scene);
});

test("revealing a module opens what hides it, and closing a frame closes what is inside", () => {
  const tree = folded(residual([3, 8, 36, 3]));
  const start = expansionAtStart(tree);
  const id = tree.byName.get("layer3.20.conv2") ?? 0;
  expect(standIn(tree.items, start, id)).not.toBe(id);
  const open = revealing(tree, start, id);
  expect(standIn(tree.items, open, id)).toBe(id);
  const layer3 = tree.byName.get("layer3") ?? 0;
  const closed = toggled(tree, open, layer3);
  expect(standIn(tree.items, closed, id)).toBe(layer3);
  expect(standIn(tree.items, toggled(tree, closed, layer3), id)).not.toBe(id);
});

test("the same graph makes the same picture", () => {
  const picture = (): unknown => {
    const tree = folded(residual([3, 8, 36, 3]));
    return sceneOf(tree, expansionAtStart(tree), SIZES).boxes.map(({ x, y }) => [x, y]);
  };
  expect(picture()).toEqual(picture());
});

test("a graph without nodes is an empty picture", () => {
  const tree = folded({ nodes: [], edges: [] });
  expect(sceneOf(tree, expansionAtStart(tree), SIZES).boxes).toEqual([]);
});
