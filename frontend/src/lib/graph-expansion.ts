/** Which containers are open. */

import { ancestry, inside, isContainer, isHelper, type GraphTree, type Item } from "./graph-tree";

/** So many boxes are read at a glance: about a screen. */
export const MOST_BOXES_AT_START = 40;
/** A picture of more boxes than this is drawn, but nobody sees anything in it. */
export const MOST_BOXES = 1500;

export type Expansion = ReadonlySet<number>;

/** Opens containers from the top down while there is room, such that what is made alike is treated alike. */
export function expansionAtStart(tree: GraphTree, room: number = MOST_BOXES_AT_START): Expansion {
  const open = new Set<number>();
  let boxes = tree.roots.length;
  let level = tree.roots.map((id) => tree.items[id]).filter((item): item is Item => item !== undefined);
  // One root, the usual case, is opened whatever it costs: else there would be nothing to see.
  if (level.length === 1 && level[0] && isContainer(level[0])) {
    open.add(level[0].id);
    boxes += level[0].children.length;
    level = childrenOf(tree, level);
  }
  while (level.length > 0) {
    const opened: Item[] = [];
    for (const alike of families(tree, level)) {
      const cost = alike.reduce((sum, item) => sum + item.children.length, 0);
      if (boxes + cost > room) continue;
      boxes += cost;
      for (const item of alike) open.add(item.id);
      opened.push(...alike);
    }
    level = childrenOf(tree, opened);
  }
  return open;
}

/** Everything open, as far as there is room; the rest as at the start. */
export function expansionOfAll(tree: GraphTree, room: number = MOST_BOXES): Expansion {
  return expansionAtStart(tree, room);
}

/** With everything open that hides `id`. */
export function revealing(tree: GraphTree, open: Expansion, id: number): Expansion {
  return new Set([...open, ...ancestry(tree.items, id).slice(1)]);
}

export function toggled(tree: GraphTree, open: Expansion, id: number): Expansion {
  const next = new Set(open);
  if (!next.delete(id)) next.add(id);
  else for (const each of inside(tree.items, id)) next.delete(each);
  return next;
}

/** The item that stands for `id` in the picture: itself, or the outermost closed container around it. */
export function standIn(items: readonly Item[], open: Expansion, id: number): number {
  let shown = id;
  for (const each of ancestry(items, id)) {
    if (each !== id && !open.has(each)) shown = each;
  }
  return shown;
}

function childrenOf(tree: GraphTree, level: readonly Item[]): Item[] {
  return level.flatMap((item) => item.children.flatMap((id) => tree.items[id] ?? []));
}

/** Such a module is seen as one, as it was recorded: data goes in and comes out, and nothing is known in between. */
function holdsHelpers(tree: GraphTree, item: Item): boolean {
  return item.children.every((id) => tree.items[id] !== undefined && isHelper(tree.items, tree.items[id]));
}

/** Containers of a level in groups of the same class and number of children, in the order of execution. */
function families(tree: GraphTree, level: readonly Item[]): Item[][] {
  const found = new Map<string, Item[]>();
  for (const item of level.filter((each) => isContainer(each) && !holdsHelpers(tree, each))) {
    const classes = item.children.map((id) => tree.items[id]?.module?.class_name ?? "").join();
    const key = `${item.module?.class_name ?? item.kind}\n${classes}`;
    const family = found.get(key) ?? [];
    found.set(key, family);
    family.push(item);
  }
  return [...found.values()];
}
