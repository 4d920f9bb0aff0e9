import { expect, test } from "vitest";
import type { TableAnswer } from "../wire/types";
import { graphTree } from "./graph-build";
import { dataEdge, moduleNode } from "./graph-cases";
import {
  combined,
  combinedTitle,
  healthOf,
  measureOf,
  moduleOfActivation,
  ownValues,
  parameterNames,
} from "./graph-health";
import type { GraphTree } from "./graph-tree";

const own = (...names: string[]): { name: string; shape: number[]; dtype: string; trainable: boolean }[] =>
  names.map((name) => ({ name, shape: [2, 3], dtype: "float32", trainable: true }));

function table(statistic: string, values: Readonly<Record<string, number>>): TableAnswer {
  return {
    what: "table",
    run: "r",
    version: 1,
    names: Object.keys(values),
    steps: new Float64Array(Object.keys(values).length),
    statistics: new Map([[statistic, Float64Array.from(Object.values(values))]]),
  };
}

function tree(): GraphTree {
  return graphTree({
    nodes: [
      moduleNode("ViT", null, 0, { own_parameters: own("token") }),
      moduleNode("block", "ViT", 1),
      moduleNode("block.fc", "block", 2, { own_parameters: own("weight", "bias") }),
      moduleNode("block.lstm", "block", 3),
    ],
    edges: [dataEdge("block.fc", "block.lstm")],
  });
}

test("parameters belong to the module that holds them, also to the root, whose name is no part of theirs", () => {
  const gradients = table("norm", { token: 2, "block.fc.weight": 3, "block.fc.bias": 4, "elsewhere.weight": 9 });
  const values = ownValues(tree(), measureOf("gradient"), gradients, null);
  expect([...values]).toEqual([
    ["ViT", 2],
    ["block.fc", 5],
  ]);
  expect(parameterNames(tree(), "block.fc")).toContain("block.fc.weight");
});

test("a box shows its modules in the order of execution, and norms add up as lengths do", () => {
  const graph = tree();
  const gradients = table("norm", { token: 12, "block.fc.weight": 3, "block.fc.bias": 4 });
  const measure = measureOf("gradient");
  const values = ownValues(graph, measure, gradients, null);
  const root = graph.items[graph.roots[0] ?? 0];
  const health = root && healthOf(graph, root, measure, values);
  expect(health?.parts).toEqual([12, 5]);
  expect(health?.value).toBe(13);
});

test("updates are divided by the weights of the same name", () => {
  const values = ownValues(
    tree(),
    measureOf("ratio"),
    table("norm", { "block.fc.weight": 1, token: 3 }),
    table("norm", { "block.fc.weight": 100 }),
  );
  expect(values.get("block.fc")).toBe(0.01);
  expect(values.get("ViT")).toBeNaN();
});

test("several outputs of a module are found by the place behind its name", () => {
  const names = new Map([
    ["block.lstm", 1],
    ["odd[name]", 2],
  ]);
  expect(moduleOfActivation(names, "block.lstm[1][0]")).toBe("block.lstm");
  expect(moduleOfActivation(names, "odd[name]")).toBe("odd[name]");
  expect(moduleOfActivation(names, "odd[name][0]")).toBe("odd[name]");
  expect(moduleOfActivation(names, "gone[0]")).toBe(null);
});

test("of shares the greatest counts, of sizes the median, of nothing nothing", () => {
  expect(combined(measureOf("dead"), [0.1, NaN, 0.9])).toBe(0.9);
  expect(combined(measureOf("rms"), [1, 2, 10, 4])).toBe(3);
  expect(combined(measureOf("rms"), [NaN])).toBeNaN();
  expect(combinedTitle(measureOf("dead"), 12)).toBe("Inactive units (largest of 12)");
});

test("numbers of parameters come from the graph itself", () => {
  expect([...ownValues(tree(), measureOf("parameters"), null, null)]).toEqual([
    ["ViT", 6],
    ["block.fc", 12],
  ]);
});

test("an unknown measure is the first one, and a table that has not come is no value", () => {
  expect(measureOf("nonsense").key).toBe("gradient");
  expect(ownValues(tree(), measureOf("rms"), null, null).size).toBe(0);
});
