/** The module tree of a recording as a picture needs it: whole whatever was recorded, with calls told apart. */

import type { GraphData, GraphEdge, GraphNode } from "../wire/types";
import { callsOf } from "./graph-calls";

/** What can be drawn as one box. "call": one of several calls of a module that holds nothing. "stack": several
 * siblings in a row. "input" and "output": where the model's own data comes in and goes out. */
export type ItemKind = "module" | "call" | "stack" | "input" | "output";

export interface Item {
  readonly id: number;
  readonly kind: ItemKind;
  /** What tells it from its siblings: the last part of the name. */
  readonly label: string;
  /** null for stacks and for the model's input and output. */
  readonly module: GraphNode | null;
  /** −1: none. */
  parent: number;
  children: number[];
  /** Place in the order of execution of the earliest part; Infinity: never called. */
  readonly order: number;
  /** Recorded modules in it, itself included. */
  readonly modules: number;
  /** Which call of the module; 0 when it stands for all of them. */
  readonly call: number;
}

/** All recorded edges from one item to another. */
export interface Link {
  readonly source: number;
  readonly target: number;
  readonly edges: readonly GraphEdge[];
}

export interface GraphTree {
  readonly items: Item[];
  roots: number[];
  readonly links: readonly Link[];
  /** Of modules; of one that is split into calls the first. */
  readonly byName: ReadonlyMap<string, number>;
}

export const NO_ITEM = -1;

/** Missing parents make roots, a parent that is its own descendant likewise, of equal names the first counts. */
export function graphTree(graph: GraphData): GraphTree {
  const nodes = [...new Map([...graph.nodes].reverse().map((node) => [node.name, node])).values()].reverse();
  const parents = parentsOf(nodes);
  const order = orderOf(nodes, parents);
  const builder = new TreeBuilder(nodes, parents, order);
  const calls = callsOf(graph.edges, splittable(nodes, parents));
  return builder.tree(graph.edges, calls.ends, calls.counts);
}

export function isContainer(item: Item): boolean {
  return item.children.length > 0;
}

/** Ids of the item and all above it, from the item up. */
export function ancestry(items: readonly Item[], id: number): number[] {
  const found: number[] = [];
  for (let at = id; at !== NO_ITEM; at = items[at]?.parent ?? NO_ITEM) found.push(at);
  return found;
}

/** Ids of the item and everything inside, each before its children. */
export function inside(items: readonly Item[], id: number): number[] {
  const found = [id];
  for (let place = 0; place < found.length; place++) {
    for (const child of items[found[place] ?? NO_ITEM]?.children ?? []) found.push(child);
  }
  return found;
}

function parentsOf(nodes: readonly GraphNode[]): number[] {
  const places = new Map(nodes.map((node, place) => [node.name, place]));
  const parents = nodes.map((node) => (node.parent === null ? NO_ITEM : (places.get(node.parent) ?? NO_ITEM)));
  const settled = new Uint8Array(nodes.length);
  for (let start = 0; start < nodes.length; start++) {
    const way: number[] = [];
    let at = start;
    while (at !== NO_ITEM && settled[at] === 0) {
      settled[at] = 2; // on the present way up
      way.push(at);
      at = parents[at] ?? NO_ITEM;
    }
    const last = way.at(-1);
    if (at !== NO_ITEM && settled[at] === 2 && last !== undefined) parents[last] = NO_ITEM;
    for (const place of way) settled[place] = 1;
  }
  return parents;
}

function orderOf(nodes: readonly GraphNode[], parents: readonly number[]): Float64Array {
  const order = Float64Array.from(nodes, (node) => node.order ?? Infinity);
  // A ModuleList is never called itself: it comes where the first of its modules does.
  for (let place = 0; place < nodes.length; place++) {
    const own = nodes[place]?.order ?? Infinity;
    let at = parents[place] ?? NO_ITEM;
    while (at !== NO_ITEM && own < (order[at] ?? 0)) {
      order[at] = own;
      at = parents[at] ?? NO_ITEM;
    }
  }
  return order;
}

/** Names of modules whose calls may be drawn apart: they hold nothing that the calls would share. */
function splittable(nodes: readonly GraphNode[], parents: readonly number[]): ReadonlyMap<string, number> {
  const withChildren = new Set(parents);
  const may = nodes.filter(
    (node, place) => node.calls > 1 && node.own_parameters.length === 0 && !withChildren.has(place),
  );
  return new Map(may.map((node) => [node.name, node.calls]));
}

class TreeBuilder {
  private readonly items: Item[] = [];
  private readonly byName = new Map<string, number>();
  private readonly itemsOfCalls = new Map<string, number[]>();

  constructor(
    private readonly nodes: readonly GraphNode[],
    private readonly parents: readonly number[],
    private readonly order: Float64Array,
  ) {}

  tree(edges: readonly GraphEdge[], ends: readonly (readonly [number, number])[], counts: ReadonlyMap<string, number>): GraphTree {
    const sizes = this.sizes();
    for (const [place, node] of this.nodes.entries()) this.addModule(place, node, counts, sizes[place] ?? 1);
    const roots = this.adopt();
    const links = this.links(edges, ends);
    if (roots.length === 1) this.addTerminals(roots[0] ?? 0, links);
    for (const item of this.items) item.children = inOrder(this.items, item.children);
    return { items: this.items, roots: inOrder(this.items, roots), links, byName: this.byName };
  }

  private sizes(): Uint32Array {
    const sizes = new Uint32Array(this.nodes.length).fill(1);
    const waiting = new Uint32Array(this.nodes.length);
    for (const parent of this.parents) if (parent !== NO_ITEM) waiting[parent] = (waiting[parent] ?? 0) + 1;
    const ready = this.parents.flatMap((_, place) => (waiting[place] === 0 ? [place] : []));
    for (const place of ready) {
      const parent = this.parents[place] ?? NO_ITEM;
      if (parent === NO_ITEM) continue;
      sizes[parent] = (sizes[parent] ?? 0) + (sizes[place] ?? 0);
      waiting[parent] = (waiting[parent] ?? 0) - 1;
      if (waiting[parent] === 0) ready.push(parent);
    }
    return sizes;
  }

  private addModule(place: number, node: GraphNode, counts: ReadonlyMap<string, number>, modules: number): void {
    const count = counts.get(node.name) ?? 1;
    const order = this.order[place] ?? Infinity;
    const calls = Array.from({ length: count }, (_, index) => {
      const call = count > 1 ? index + 1 : 0;
      return this.add({ kind: call ? "call" : "module", label: labelOf(node, this.parentName(place)), module: node, order: order + index * 1e-3, modules, call });
    });
    this.itemsOfCalls.set(node.name, calls);
    this.byName.set(node.name, calls[0] ?? NO_ITEM);
  }

  private add(parts: Pick<Item, "kind" | "label" | "module" | "order" | "modules" | "call">): number {
    const id = this.items.length;
    this.items.push({ id, parent: NO_ITEM, children: [], ...parts });
    return id;
  }

  private parentName(place: number): string {
    return this.nodes[this.parents[place] ?? NO_ITEM]?.name ?? "";
  }

  private adopt(): number[] {
    const roots: number[] = [];
    for (const [place, node] of this.nodes.entries()) {
      const parent = this.parents[place] ?? NO_ITEM;
      const home = parent === NO_ITEM ? NO_ITEM : (this.byName.get(this.parentName(place)) ?? NO_ITEM);
      for (const id of this.itemsOfCalls.get(node.name) ?? []) {
        const item = this.items[id];
        if (item) item.parent = home;
        (this.items[home]?.children ?? roots).push(id);
      }
    }
    return roots;
  }

  private links(edges: readonly GraphEdge[], ends: readonly (readonly [number, number])[]): Link[] {
    const links = new Map<string, { source: number; target: number; edges: GraphEdge[] }>();
    for (const [place, edge] of edges.entries()) {
      const [sourceCall, targetCall] = ends[place] ?? [0, 0];
      const source = this.itemsOfCalls.get(edge.source)?.[sourceCall];
      const target = this.itemsOfCalls.get(edge.target)?.[targetCall];
      if (source === undefined || target === undefined) continue;
      const link = links.get(`${source} ${target}`) ?? { source, target, edges: [] };
      links.set(`${source} ${target}`, link);
      link.edges.push(edge);
    }
    return [...links.values()];
  }

  /** The recording holds no edge from the model's own inputs: what has the shape of one and comes from nowhere
   * else is taken to read it. Likewise at the other end. */
  private addTerminals(root: number, links: Link[]): void {
    const module = this.items[root]?.module;
    if (!module || links.length === 0) return;
    const [fed, read] = [new Set(links.map((link) => link.target)), new Set(links.map((link) => link.source))];
    const ends = this.items.filter((item) => !isContainer(item) && item.module?.order !== null);
    for (const [kind, tensors] of [["input", module.inputs], ["output", module.outputs]] as const) {
      for (const [place, tensor] of tensors.entries()) {
        const same = (other: { shape: readonly number[]; dtype: string }): boolean =>
          other.dtype === tensor.dtype && other.shape.join() === tensor.shape.join();
        const touching = ends.filter((item) =>
          kind === "input" ? !fed.has(item.id) && item.module?.inputs.some(same) : !read.has(item.id) && item.module?.outputs.some(same),
        );
        if (touching.length === 0) continue;
        const label = tensors.length > 1 ? `${kind} ${place + 1}` : kind;
        const id = this.add({ kind, label, module: null, order: kind === "input" ? -1 : Number.MAX_VALUE, modules: 0, call: 0 });
        const terminal = this.items[id];
        if (terminal) terminal.parent = root;
        this.items[root]?.children.push(id);
        for (const { id: other } of touching) {
          const [source, target] = kind === "input" ? [id, other] : [other, id];
          links.push({ source, target, edges: [{ source: "", target: "", output: 0, input: 0, ...tensor }] });
        }
      }
    }
  }
}

function labelOf(node: GraphNode, parent: string): string {
  const cut = node.name.startsWith(`${parent}.`) || node.name.startsWith(`${parent}/`) ? parent.length + 1 : 0;
  return cut > 0 ? node.name.slice(cut) : node.name.slice(node.parent === null ? 0 : node.name.lastIndexOf(".") + 1);
}

function inOrder(items: readonly Item[], ids: readonly number[]): number[] {
  const order = (id: number): number => items[id]?.order ?? Infinity;
  return [...ids].sort((a, b) => (order(a) === order(b) ? a - b : order(a) < order(b) ? -1 : 1));
}
