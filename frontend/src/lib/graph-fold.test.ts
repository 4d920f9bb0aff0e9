import { expect, test } from "vitest";
import { graphTree } from "./graph-build";
import { residual, sequential } from "./graph-cases";
import { fold, stackTitle } from "./graph-fold";
import { type GraphTree, inside } from "./graph-tree";
import type { GraphData } from "../wire/types";

function folded(graph: GraphData): GraphTree {
  const tree = graphTree(graph);
  fold(tree);
  return tree;
}

function stacks(tree: GraphTree): string[] {
  return tree.items.filter(({ kind }) => kind === "stack").map((item) => `${item.label}: ${stackTitle(tree, item)}`);
}

test("few siblings stay as they are", () => {
  expect(stacks(folded(sequential(16)))).toEqual([]);
});

test("a container all of whose children are alike is the stack itself", () => {
  expect(stacks(folded(sequential(40, ["Block"])))).toEqual([]);
});

test("equal blocks behind a different one become one stack", () => {
  expect(stacks(folded(residual([36])))).toEqual(["1 … 35: 35 × Bottleneck"]);
});

test("patterns of several modules in turn are found", () => {
  const odd = sequential(40, ["Conv2d", "ReLU"]);
  const nodes = odd.nodes.map((node) => (node.name === "39" ? { ...node, class_name: "Flatten" } : node));
  expect(stacks(folded({ ...odd, nodes }))).toEqual(["0 … 37: 19 × (Conv2d, ReLU)"]);
});

test("hundreds of siblings become chapters of few, and chapters of chapters", () => {
  for (const size of [200, 5000]) {
    const tree = folded(sequential(size, ["A", "B", "C"]));
    for (const item of tree.items) expect(item.children.length).toBeLessThanOrEqual(66);
    const root = tree.roots[0] ?? 0;
    const modules = inside(tree.items, root).filter((id) => tree.items[id]?.kind === "module");
    expect(modules.length).toBe(size + 1);
    expect(new Set(modules).size).toBe(size + 1);
  }
});

test("parents of folded modules are the stacks that hold them", () => {
  const tree = folded(sequential(500));
  for (const item of tree.items) for (const child of item.children) expect(tree.items[child]?.parent).toBe(item.id);
});
