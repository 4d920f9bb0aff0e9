/** The module tree of a recording, whole whatever was recorded, with calls told apart and sums found. */

import type { GraphData, GraphEdge, GraphNode } from "../wire/types";
import { callsOf } from "./graph-calls";
import { type Join, joinsOf, type Reading } from "./graph-joins";
import { orderOf, parentsOf } from "./graph-parents";
import { ancestry, commonParent, type GraphTree, isContainer, type Item, type Link, NO_ITEM } from "./graph-tree";

/** Missing parents make roots, a parent that is its own descendant likewise, of equal names the first counts. */
export function graphTree(graph: GraphData): GraphTree {
  const nodes = [...new Map([...graph.nodes].reverse().map((node) => [node.name, node])).values()].reverse();
  const parents = parentsOf(nodes);
  const order = orderOf(nodes, parents);
  const builder = new TreeBuilder(nodes, parents, order);
  const calls = callsOf(graph.edges, splittable(nodes, parents));
  return builder.tree(graph.edges, calls.ends, calls.counts);
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

  tree(
    edges: readonly GraphEdge[],
    ends: readonly (readonly [number, number])[],
    counts: ReadonlyMap<string, number>,
  ): GraphTree {
    const sizes = this.sizes();
    for (const [place, node] of this.nodes.entries()) this.addModule(place, node, counts, sizes[place] ?? 1);
    const roots = this.adopt();
    const links = this.links(edges, ends);
    // Where there are several roots, a join may belong to none of them.
    roots.push(...this.items.filter(({ kind, parent }) => kind === "join" && parent === NO_ITEM).map(({ id }) => id));
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
      return this.add({
        kind: call ? "call" : "module",
        label: labelOf(node, this.parentName(place)),
        module: node,
        order: order + index * 1e-3,
        modules,
        call,
      });
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
    const links = new Links();
    const readings: Reading[] = [];
    const read: GraphEdge[] = [];
    for (const [place, edge] of edges.entries()) {
      const [sourceCall, targetCall] = ends[place] ?? [0, 0];
      const source = this.itemsOfCalls.get(edge.source)?.[sourceCall];
      const target = this.itemsOfCalls.get(edge.target)?.[targetCall];
      if (source === undefined || target === undefined) continue;
      readings.push({ source, target, input: edge.input });
      read.push(edge);
    }
    const { joinOf, joins } = joinsOf(readings);
    const items = this.addJoins(joins, read, joinOf, links);
    for (const [place, { source, target }] of readings.entries()) {
      const edge = read[place];
      const join = joinOf[place] ?? null;
      if (!edge) continue;
      const from =
        join === null ? source : (items.get(join) ?? (join.base?.members.has(source) ? items.get(join.base) : source));
      links.add(from ?? source, target, edge);
    }
    return links.all();
  }

  /** Items for the joins that several read; a join lies where its last part is, as far inside as its base or its
   * reader is too. */
  private addJoins(
    joins: readonly Join[],
    edges: readonly GraphEdge[],
    joinOf: readonly (Join | null)[],
    links: Links,
  ): Map<Join, number> {
    const items = new Map<Join, number>();
    const edgeOf = new Map<Join, GraphEdge>();
    for (const [place, join] of joinOf.entries()) {
      const edge = edges[place];
      if (join && edge && !edgeOf.has(join)) edgeOf.set(join, edge);
    }
    for (const join of joins.filter(({ isShared }) => isShared)) {
      const order = (id: number): number => this.items[id]?.order ?? Infinity;
      const last = join.added.reduce(
        (latest, id) => (order(id) > order(latest) ? id : latest),
        join.added[0] ?? NO_ITEM,
      );
      const base = join.base ? items.get(join.base) : undefined;
      const homes = [join.reader, ...(base === undefined ? [] : [base])].map((other) =>
        commonParent(this.items, last, other),
      );
      const depth = (id: number): number => ancestry(this.items, id).length;
      const parent = homes.reduce((deepest, home) => (depth(home) > depth(deepest) ? home : deepest), NO_ITEM);
      const id = this.add({
        kind: "join",
        label: "join",
        module: null,
        order: order(last) + 5e-4,
        modules: 0,
        call: 0,
      });
      const item = this.items[id];
      if (item) item.parent = parent;
      (this.items[parent]?.children ?? []).push(id);
      items.set(join, id);
      const edge = edgeOf.get(join);
      for (const source of [...(base === undefined ? [] : [base]), ...join.added])
        if (edge) links.add(source, id, edge);
    }
    return items;
  }

  /** The recording holds no edge from the model's own inputs: what has the shape of one and comes from nowhere
   * else is taken to read it. Likewise at the other end. */
  private addTerminals(root: number, links: Link[]): void {
    const module = this.items[root]?.module;
    if (!module || links.length === 0) return;
    const [fed, read] = [new Set(links.map((link) => link.target)), new Set(links.map((link) => link.source))];
    const ends = this.items.filter((item) => !isContainer(item) && item.module?.order !== null);
    for (const [kind, tensors] of [
      ["input", module.inputs],
      ["output", module.outputs],
    ] as const) {
      for (const [place, tensor] of tensors.entries()) {
        const same = (other: { shape: readonly number[]; dtype: string }): boolean =>
          other.dtype === tensor.dtype && other.shape.join() === tensor.shape.join();
        const touching = ends.filter((item) =>
          kind === "input"
            ? !fed.has(item.id) && item.module?.inputs.some(same)
            : !read.has(item.id) && item.module?.outputs.some(same),
        );
        if (touching.length === 0) continue;
        const label = tensors.length > 1 ? `${kind} ${place + 1}` : kind;
        const id = this.add({
          kind,
          label,
          module: null,
          order: kind === "input" ? -1 : Number.MAX_VALUE,
          modules: 0,
          call: 0,
        });
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

/** Links by their ends, in the order of the first. */
class Links {
  private readonly found = new Map<string, { source: number; target: number; edges: GraphEdge[] }>();

  add(source: number, target: number, edge: GraphEdge): void {
    const link = this.found.get(`${source} ${target}`) ?? { source, target, edges: [] };
    this.found.set(`${source} ${target}`, link);
    if (!link.edges.includes(edge)) link.edges.push(edge);
  }

  all(): Link[] {
    return [...this.found.values()];
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
