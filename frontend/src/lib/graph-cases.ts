/** Module graphs for the tests. */

import type { GraphData, GraphEdge, GraphNode } from "../wire/types";

const TENSOR = { shape: [32, 64], dtype: "float32" } as const;

export function moduleNode(
  name: string,
  parent: string | null,
  order: number | null,
  rest: Partial<GraphNode> = {},
): GraphNode {
  return {
    name,
    parent,
    order,
    class_name: "Linear",
    parameters: 10,
    trainable: 10,
    own_parameters: [],
    source_file: "train.py",
    source_line: 12,
    inputs: [TENSOR],
    outputs: [TENSOR],
    calls: order === null ? 0 : 1,
    ...rest,
  };
}

export function dataEdge(source: string, target: string, rest: Partial<GraphEdge> = {}): GraphEdge {
  return { source, target, output: 0, input: 0, ...TENSOR, ...rest };
}

/** A Sequential of so many modules, in turn of the given classes. */
export function sequential(length: number, classes: readonly string[] = ["Linear", "ReLU"]): GraphData {
  const nodes = [moduleNode("Sequential", null, 0, { class_name: "Sequential" })];
  const edges: GraphEdge[] = [];
  for (let index = 0; index < length; index++) {
    nodes.push(
      moduleNode(`${index}`, "Sequential", index + 1, { class_name: classes[index % classes.length] ?? "Linear" }),
    );
    if (index > 0) edges.push(dataEdge(`${index - 1}`, `${index}`));
  }
  return { nodes, edges };
}

/** A residual network as torchvision writes it: one ReLU a block, called three times. */
export function residual(blocks: readonly number[]): GraphData {
  const nodes = [moduleNode("ResNet", null, 0, { class_name: "ResNet" })];
  const edges: GraphEdge[] = [];
  let order = 1;
  const leaf = (name: string, parent: string, class_name: string, rest: Partial<GraphNode> = {}): void => {
    nodes.push(moduleNode(name, parent, order++, { class_name, ...rest }));
  };
  leaf("conv1", "ResNet", "Conv2d");
  leaf("relu", "ResNet", "ReLU");
  edges.push(dataEdge("conv1", "relu"));
  let before = "relu";
  for (const [stage, count] of blocks.entries()) {
    const layer = `layer${stage + 1}`;
    nodes.push(moduleNode(layer, "ResNet", order++, { class_name: "Sequential" }));
    for (let block = 0; block < count; block++) {
      const name = `${layer}.${block}`;
      nodes.push(moduleNode(name, layer, order++, { class_name: "Bottleneck" }));
      leaf(`${name}.conv1`, name, "Conv2d");
      edges.push(dataEdge(before, `${name}.conv1`), dataEdge(`${name}.conv1`, `${name}.relu`));
      leaf(`${name}.relu`, name, "ReLU", { calls: 3 });
      leaf(`${name}.conv2`, name, "Conv2d");
      edges.push(dataEdge(`${name}.relu`, `${name}.conv2`), dataEdge(`${name}.conv2`, `${name}.relu`));
      leaf(`${name}.conv3`, name, "Conv2d");
      edges.push(dataEdge(`${name}.relu`, `${name}.conv3`));
      if (block === 0) leaf(`${name}.downsample`, name, "Conv2d");
      if (block === 0) edges.push(dataEdge(before, `${name}.downsample`));
      edges.push(
        dataEdge(`${name}.conv3`, `${name}.relu`),
        dataEdge(block === 0 ? `${name}.downsample` : before, `${name}.relu`),
      );
      before = `${name}.relu`;
    }
  }
  leaf("fc", "ResNet", "Linear");
  edges.push(dataEdge(before, "fc"));
  return { nodes, edges };
}

/** Any graph, cycles and never called modules among it, by a generator with a seed: the same each time. */
export function anyGraph(size: number, edges: number, seed: number): GraphData {
  const random = generator(seed);
  const nodes = [moduleNode("root", null, 0)];
  for (let index = 1; index < size; index++) {
    const parent = random() < 0.7 ? "root" : (nodes[Math.floor(random() * nodes.length)]?.name ?? "root");
    nodes.push(moduleNode(`m${index}`, parent, random() < 0.1 ? null : index, { calls: Math.floor(random() * 4) }));
  }
  const anyName = (): string => nodes[1 + Math.floor(random() * (size - 1))]?.name ?? "root";
  return { nodes, edges: Array.from({ length: edges }, () => dataEdge(anyName(), anyName())) };
}

export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
