import { describe, expect, it } from "vitest";
import { matches, rowTree, visibleRows, type Row } from "./row-tree";

const NAMES = [
  "stem.weight",
  "block.0.conv.weight",
  "block.0.conv.bias",
  "block.0.conv.scale",
  "block.0.conv.shift",
  "block.1.conv.weight",
  "head.weight",
  "head.bias",
  "block.0.late",
];

function outline(rows: readonly Row[]): string[] {
  return rows.map(
    (row) => `${"  ".repeat(row.depth)}${row.kind === "group" ? (row.open ? "v " : "> ") : ""}${row.label}`,
  );
}

describe("groups", () => {
  it("hold neighbours of one prefix, in the order of execution", () => {
    expect(outline(visibleRows(rowTree(NAMES, true), new Set()))).toEqual([
      "stem.weight",
      "v block",
      "  v 0.conv",
      "    weight",
      "    bias",
      "    scale",
      "    shift",
      "  1.conv.weight",
      "head.weight",
      "head.bias",
      "block.0.late",
    ]);
  });

  it("close and open by their keys", () => {
    const tree = rowTree(NAMES, true);
    const block = visibleRows(tree, new Set()).find((row) => row.name === "block");
    const rows = visibleRows(tree, new Set([block?.key ?? ""]));
    expect(outline(rows)).toEqual(["stem.weight", "> block", "head.weight", "head.bias", "block.0.late"]);
    expect([rows[1]?.from, rows[1]?.to]).toEqual([1, 6]);
  });

  it("cover every tensor once and in order, however names look", () => {
    const odd = [
      "",
      ".",
      "a",
      "a.b",
      "a.b",
      "a..b",
      "a.b.c",
      "\u202eb.c",
      "</script>.x",
      "</script>.y",
      "x".repeat(10000),
    ];
    const rows = visibleRows(rowTree(odd, true), new Set(), Infinity);
    const leaves = rows.filter((row) => row.kind === "leaf");
    expect(leaves.map((row) => row.from)).toEqual(odd.map((_, i) => i));
    expect(leaves.map((row) => row.name)).toEqual(odd);
    expect(new Set(rows.map((row) => row.key)).size).toBe(rows.length);
  });

  it("can be left out", () => {
    expect(outline(visibleRows(rowTree(NAMES, false), new Set()))).toEqual(NAMES);
  });
});

it("begins with a picture that is not too long, of many tensors", () => {
  const many = Array.from(
    { length: 1500 },
    (_, i) => `layers.${Math.floor(i / 15)}.part${Math.floor(i / 5) % 3}.p${i % 5}`,
  );
  const tree = rowTree(many, true);
  expect(visibleRows(tree, new Set()).length).toBe(101);
  expect(visibleRows(tree, new Set(), Infinity).filter((row) => row.kind === "leaf").length).toBe(1500);
});

it("opens everything when there is not much", () => {
  expect(visibleRows(rowTree(NAMES, true), new Set()).filter((row) => row.kind === "leaf").length).toBe(NAMES.length);
});

it("finds names by all words of a search", () => {
  expect(matches(NAMES, "")).toEqual(NAMES.map((_, i) => i));
  expect(matches(NAMES, "Weight  block")).toEqual([1, 5]);
  expect(matches(NAMES, "absent")).toEqual([]);
  expect(matches(["a.1.weight", "a.10.weight", "a.1"], ' "a.1" ')).toEqual([0, 2]);
});
