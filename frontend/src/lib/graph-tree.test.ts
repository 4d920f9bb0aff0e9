import { expect, test } from "vitest";
import { dataEdge, moduleNode, residual, sequential } from "./graph-cases";
import { graphTree } from "./graph-build";
import { ancestry, inside, isUnused, type Item, NO_ITEM } from "./graph-tree";

function children(items: readonly Item[], id: number): string[] {
  return (items[id]?.children ?? []).map((child) => items[child]?.label ?? "");
}

test("children come in the order of execution, the model's data before and after them", () => {
  const tree = graphTree({
    nodes: [
      moduleNode("Net", null, 0),
      moduleNode("late", "Net", 2),
      moduleNode("never", "Net", null),
      moduleNode("early", "Net", 1),
    ],
    edges: [dataEdge("early", "late")],
  });
  expect(children(tree.items, tree.roots[0] ?? 0)).toEqual(["input", "early", "late", "output", "never"]);
});

test("a list that is never called itself comes where the first of its modules is called", () => {
  const tree = graphTree({
    nodes: [
      moduleNode("Net", null, 0),
      moduleNode("head", "Net", 5),
      moduleNode("blocks", "Net", null),
      moduleNode("blocks.0", "blocks", 1),
    ],
    edges: [],
  });
  expect(children(tree.items, tree.roots[0] ?? 0)).toEqual(["blocks", "head"]);
  expect(tree.items[tree.byName.get("blocks.0") ?? 0]?.label).toBe("0");
});

test("a missing parent, a parent in a circle and a name that comes twice do no harm", () => {
  const tree = graphTree({
    nodes: [
      moduleNode("orphan", "gone", 0),
      moduleNode("a", "b", 1),
      moduleNode("b", "a", 2),
      moduleNode("self", "self", 3),
      moduleNode("orphan", null, 4, { class_name: "Second" }),
    ],
    edges: [dataEdge("nobody", "a"), dataEdge("a", "nobody")],
  });
  const reached = tree.roots.flatMap((root) => inside(tree.items, root));
  expect(new Set(reached).size).toBe(4);
  expect(reached.length).toBe(4);
  expect(tree.items[tree.byName.get("orphan") ?? 0]?.module?.class_name).toBe("Linear");
  expect(tree.links).toEqual([]);
});

test("the calls of a module without parameters are told apart", () => {
  const tree = graphTree(residual([2]));
  const block = tree.items[tree.byName.get("layer1.0") ?? 0];
  const labels = (block?.children ?? []).map((id) => `${tree.items[id]?.label} ${tree.items[id]?.call}`);
  expect(labels.filter((label) => label.startsWith("relu"))).toEqual(["relu 1", "relu 2", "relu 3"]);
  const flow = tree.links.map(({ source, target }) =>
    [source, target].map((id) => `${tree.items[id]?.module?.name} ${tree.items[id]?.call}`).join(" > "),
  );
  expect(flow).toContain("layer1.0.conv2 0 > layer1.0.relu 2");
  expect(flow).toContain("layer1.0.relu 3 > layer1.1.relu 3");
  expect(flow).not.toContain("layer1.0.relu 1 > layer1.0.relu 1");
});

test("a module with parameters that is called twice stays one box", () => {
  const own_parameters = [{ name: "weight", shape: [2], dtype: "float32", trainable: true }];
  const tree = graphTree({
    nodes: [
      moduleNode("Net", null, 0),
      moduleNode("tied", "Net", 1, { calls: 2, own_parameters }),
      moduleNode("act", "Net", 2),
    ],
    edges: [dataEdge("tied", "act"), dataEdge("act", "tied")],
  });
  expect(tree.items.filter((item) => item.module?.name === "tied").length).toBe(1);
});

test("ancestry ends at the root, and a tree of 5000 modules in a row of nestings is walked", () => {
  const nodes = Array.from({ length: 5000 }, (_, index) =>
    moduleNode(`${index}`, index > 0 ? `${index - 1}` : null, index),
  );
  const tree = graphTree({ nodes, edges: [] });
  const deepest = tree.byName.get("4999") ?? 0;
  expect(ancestry(tree.items, deepest).length).toBe(5000);
  expect(tree.items[tree.roots[0] ?? 0]?.modules).toBe(5000);
  expect(tree.items[tree.roots[0] ?? 0]?.parent).toBe(NO_ITEM);
});

test("labels leave out the name of the parent, whatever it is", () => {
  const tree = graphTree({
    nodes: [
      moduleNode("generator", null, 0),
      moduleNode("generator/body", "generator", 1),
      moduleNode("generator/body.0", "generator/body", 2),
      moduleNode("</script>‮", "generator", 3),
    ],
    edges: [],
  });
  expect(tree.items.map((item) => item.label)).toEqual(["generator", "body", "0", "</script>‮"]);
  expect(graphTree(sequential(2)).items[1]?.label).toBe("0");
});

test("what lies inside of a module that computes by itself, or was compiled, is not unused", () => {
  const weights = [{ name: "in_proj_weight", shape: [2], dtype: "float32", trainable: true }];
  const { items, byName } = graphTree({
    nodes: [
      moduleNode("Net", null, 0),
      moduleNode("attention", "Net", 1, { own_parameters: weights }),
      moduleNode("attention.out_proj", "attention", null),
      moduleNode("compiled", "Net", 2),
      moduleNode("compiled.body", "compiled", null),
      moduleNode("compiled.body.fc", "compiled.body", null),
      moduleNode("forgotten", "Net", null),
    ],
    edges: [],
  });
  const unused = [...byName].filter(([, id]) => items[id] && isUnused(items, items[id])).map(([name]) => name);
  expect(unused).toEqual(["forgotten"]);
});
