import { describe, expect, it } from "vitest";
import type { DebuggedModule } from "../wire/debugger-types";
import { chainOf, moduleOfTensor, moduleRows, moduleTree } from "./debugger-modules";

function module(name: string, parent: string | null): DebuggedModule {
  return { name, parent, class_name: "Linear", parameters: 1, file: null, line: 0, order: 0 };
}

const MODULES = [
  module("Net", null),
  module("encoder", "Net"),
  module("encoder.0", "encoder"),
  module("encoder.1", "encoder"),
  module("head", "Net"),
];
const tree = moduleTree(MODULES);
const labels = (toggled: readonly string[], place: string | null = null): string[] =>
  moduleRows(tree, new Set(toggled), place).map((row) => `${row.depth} ${row.label}`);

describe("rows", () => {
  it("are all open while they are few, and say what those above do not", () => {
    expect(labels([])).toEqual(["0 Net", "1 encoder", "2 0", "2 1", "1 head"]);
  });

  it("close", () => {
    expect(labels(["encoder"])).toEqual(["0 Net", "1 encoder", "1 head"]);
    expect(labels(["Net"])).toEqual(["0 Net"]);
  });

  it("around the place are open whatever was closed", () => {
    expect(labels(["Net", "encoder"], "encoder.1")).toEqual(["0 Net", "1 encoder", "2 0", "2 1", "1 head"]);
  });

  it("of many modules begin closed below the first level", () => {
    const many = Array.from({ length: 200 }, (_, i) => module(`encoder.${i}`, "encoder"));
    const rows = moduleRows(moduleTree([...MODULES.slice(0, 2), ...many]), new Set(), null);
    expect(rows.map((row) => row.label)).toEqual(["Net", "encoder"]);
  });
});

it("a circle of parents ends", () => {
  const circle = moduleTree([module("a", "b"), module("b", "a"), module("c", "c")]);
  expect(moduleRows(circle, new Set(), "a").map((row) => row.label)).toEqual(["c"]);
  expect(chainOf(circle, "a")).toEqual(["a", "b"]);
});

it("tensors belong to the innermost module that their name names", () => {
  expect(moduleOfTensor(tree, "gradient:encoder.0.weight")).toBe("encoder.0");
  expect(moduleOfTensor(tree, "state:encoder.1.weight/exp_avg")).toBe("encoder.1");
  expect(moduleOfTensor(tree, "input:encoder.0[1]")).toBe("encoder.0");
  expect(moduleOfTensor(tree, "loss:loss")).toBeNull();
});
