/** Parents and order of recorded modules, whole whatever was recorded. */

import type { GraphNode } from "../wire/types";
import { NO_ITEM } from "./graph-tree";

/** For each node the place of its parent. A missing one makes a root, one that is its own descendant likewise. */
export function parentsOf(nodes: readonly GraphNode[]): number[] {
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

export function orderOf(nodes: readonly GraphNode[], parents: readonly number[]): Float64Array {
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
