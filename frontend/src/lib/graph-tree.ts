/** The module tree as a picture needs it, and ways to walk it; graph-build.ts makes it. */

import type { GraphEdge, GraphNode } from "../wire/types";

/** What can be drawn as one box. "call": one of several calls of a module that holds nothing. "stack": several
 * siblings in a row. "join": outputs of several modules are put together outside of modules. "input" and "output":
 * where the model's own data comes in and goes out. */
export type ItemKind = "module" | "call" | "stack" | "join" | "input" | "output";

export interface Item {
  readonly id: number;
  readonly kind: ItemKind;
  /** What tells it from its siblings: the last part of the name. */
  readonly label: string;
  /** null for what is no module. */
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

export function isContainer(item: Item): boolean {
  return item.children.length > 0;
}

/** Never called, and not used by the module around it either, as far as one can know. */
export function isUnused(items: readonly Item[], item: Item): boolean {
  return item.order === Infinity && !isHelper(items, item);
}

/** Inside of a module of which only the outside was seen: it computes by itself, as MultiheadAttention does with its
 * projection, or was compiled. What is inside is used there without a call of its own. */
export function isHelper(items: readonly Item[], item: Item): boolean {
  if (item.order !== Infinity) return false;
  const around = ancestry(items, item.parent).map((id) => items[id]);
  const called = around.find((each) => (each?.module?.calls ?? 0) > 0);
  if (!called?.module) return false;
  const computesItself = called.id === item.parent && called.module.own_parameters.length > 0;
  return computesItself || called.children.every((id) => items[id]?.order === Infinity);
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

/** The innermost container of both; NO_ITEM when they share none. */
export function commonParent(items: readonly Item[], one: number, other: number): number {
  const above = new Set(ancestry(items, items[other]?.parent ?? NO_ITEM));
  return ancestry(items, items[one]?.parent ?? NO_ITEM).find((id) => above.has(id)) ?? NO_ITEM;
}
