import { expect, test } from "vitest";
import { dataEdge, moduleNode } from "./graph-cases";
import { joinsOf } from "./graph-joins";
import { graphTree } from "./graph-build";

function reads(target: number, ...sources: number[]): { source: number; target: number; input: number }[] {
  return sources.map((source) => ({ source, target, input: 0 }));
}

test("what is read together by one alone is no shared join", () => {
  const { joins, joinOf } = joinsOf([...reads(10, 1), ...reads(11, 1, 2)]);
  expect(joinOf[0]).toBe(null);
  expect(joins.map(({ isShared }) => isShared)).toEqual([false]);
});

test("a stream that grows is a chain of joins", () => {
  const { joins } = joinsOf([
    ...reads(10, 1, 2),
    ...reads(11, 1, 2, 3),
    ...reads(12, 1, 2, 3, 4),
    ...reads(13, 1, 2, 3, 4),
  ]);
  expect(joins.map(({ added, base }) => [added, base && [...base.members]])).toEqual([
    [[1, 2], null],
    [[3], [1, 2]],
    [[4], [1, 2, 3]],
  ]);
  expect(joins.every(({ isShared }) => isShared)).toBe(true);
});

test("different inputs of one module are not joined", () => {
  const readings = [
    { source: 1, target: 9, input: 0 },
    { source: 2, target: 9, input: 1 },
  ];
  expect(joinsOf(readings).joins).toEqual([]);
});

/** Blocks that add their result to what they were given, as recorded: everybody reads everything before. */
function residualStream(blocks: number): ReturnType<typeof graphTree> {
  const nodes = [moduleNode("GPT", null, 0), moduleNode("wte", "GPT", 1)];
  const edges = [];
  const stream = ["wte"];
  for (let block = 0; block < blocks; block++) {
    nodes.push(moduleNode(`${block}`, "GPT", 2 + block * 9, { class_name: "Block" }));
    for (const [place, part] of ["attn", "mlp"].entries()) {
      const name = `${block}.${part}`;
      nodes.push(moduleNode(name, `${block}`, 3 + block * 9 + place));
      edges.push(...stream.map((source) => dataEdge(source, name)));
      stream.push(name);
    }
  }
  nodes.push(moduleNode("head", "GPT", 1000));
  edges.push(...stream.map((source) => dataEdge(source, "head")));
  return graphTree({ nodes, edges });
}

test("the lines of a residual stream grow with its blocks, not with their square", () => {
  expect(residualStream(24).links.length).toBeLessThan(24 * 2 * 4);
});

test("a block that adds its result to its input holds the joins, so that closed blocks are a chain", () => {
  const { items, byName, links } = residualStream(3);
  const joins = items.filter((item) => item.kind === "join");
  expect(joins.map((item) => items[item.parent]?.label)).toEqual(["0", "0", "1", "1", "2"]);
  const into = links.filter(({ target }) => target === byName.get("1.attn")).map(({ source }) => items[source]?.kind);
  expect(into).toEqual(["join"]);
});
