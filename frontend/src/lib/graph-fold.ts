/** Folds what repeats: 35 equal blocks in a row become one stack, and very many siblings become chapters. */

import { inside, type GraphTree, type Item, type ItemKind, NO_ITEM } from "./graph-tree";

/** Fewer siblings than this are easy to read as they are. */
const MOST_UNFOLDED = 16;
const FEWEST_REPEATS = 4;
/** Conv, norm, activation, … : patterns of up to so many different siblings in turn. */
const LONGEST_PATTERN = 8;
/** More siblings than this are divided into chapters, whether they repeat or not. */
const MOST_SIBLINGS = 64;
const CHAPTER = 32;

interface Repeat {
  readonly period: number;
  readonly repeats: number;
}

/** Puts stacks into the tree, in place. Needs to be called once. */
export function fold(tree: GraphTree): void {
  const shapes = shapesOf(tree);
  tree.roots = foldChildren(tree, NO_ITEM, tree.roots, shapes);
  for (const item of [...tree.items]) {
    if (item.children.length > 0) item.children = foldChildren(tree, item.id, item.children, shapes);
  }
}

/** What a stack holds, in words: "35 × Bottleneck", "8 × (Conv2d, ReLU)", "1024 modules". */
export function stackTitle(tree: GraphTree, stack: Item): string {
  const isNested = stack.children.some((id) => tree.items[id]?.kind === "stack");
  if (isNested) return `${stack.modules} modules`;
  const names = stack.children.filter((id) => tree.items[id]?.kind !== "join").map((id) => titleOf(tree, id));
  const period = periodOf(names);
  const pattern = names.slice(0, period);
  const repeats = Math.round(names.length / period);
  if (repeats < 2 || period > LONGEST_PATTERN) return `${stack.modules} modules`;
  return `${repeats} × ${pattern.length === 1 ? pattern[0] : `(${pattern.join(", ")})`}`;
}

function titleOf(tree: GraphTree, id: number): string {
  const item = tree.items[id];
  return item?.module?.class_name ?? item?.label ?? "";
}

function periodOf(names: readonly string[]): number {
  for (let period = 1; period <= LONGEST_PATTERN; period++) {
    if (names.every((name, place) => place < period || name === names[place - period])) return period;
  }
  return names.length;
}

/** A number for each item; two have the same one when they are made alike: classes, in the same nesting. */
function shapesOf(tree: GraphTree): Uint32Array {
  const shapes = new Uint32Array(tree.items.length);
  const known = new Map<string, number>();
  const order = tree.roots.flatMap((root) => inside(tree.items, root)).reverse();
  for (const id of order) {
    const item = tree.items[id];
    if (!item) continue;
    // Where sums lie depends on the neighbours, not on how a block is made.
    const parts = item.children.filter((child) => tree.items[child]?.kind !== "join");
    const children = parts.map((child) => shapes[child] ?? 0).join();
    const key = `${item.module?.class_name ?? item.kind}\n${children}`;
    const shape = known.get(key) ?? known.size;
    known.set(key, shape);
    shapes[id] = shape;
  }
  return shapes;
}

function foldChildren(tree: GraphTree, parent: number, children: readonly number[], shapes: Uint32Array): number[] {
  if (children.length <= MOST_UNFOLDED) return [...children];
  const ofKind = (...kinds: readonly ItemKind[]): number[] =>
    children.filter((id) => kinds.includes(tree.items[id]?.kind ?? "module"));
  let folded = stackRepeats(tree, parent, ofKind("module", "call", "stack", "join"), shapes);
  while (folded.length > MOST_SIBLINGS) folded = chapters(tree, parent, folded, shapes);
  return [...ofKind("input"), ...folded, ...ofKind("output")];
}

/** Each child with the joins behind it: sums go with what they add. */
function unitsOf(tree: GraphTree, children: readonly number[]): number[][] {
  const units: number[][] = [];
  for (const child of children) {
    const last = units.at(-1);
    if (last && tree.items[child]?.kind === "join") last.push(child);
    else units.push([child]);
  }
  return units;
}

function kindsOf(units: readonly (readonly number[])[], shapes: Uint32Array): number[] {
  // Stacks that were added here have no shape; none is like another.
  return units.map(([id = NO_ITEM]) => shapes[id] ?? shapes.length + id);
}

function stackRepeats(tree: GraphTree, parent: number, children: readonly number[], shapes: Uint32Array): number[] {
  const units = unitsOf(tree, children);
  const kinds = kindsOf(units, shapes);
  const folded: number[] = [];
  for (let place = 0; place < units.length; ) {
    const repeat = repeatAt(kinds, place);
    const length = repeat ? repeat.period * repeat.repeats : 1;
    const members = units.slice(place, place + length).flat();
    // All of the children repeat: then the container is the stack.
    if (length < units.length && length > 1) folded.push(addFolded(tree, parent, members, shapes));
    else folded.push(...members);
    place += length;
  }
  return folded;
}

function repeatAt(kinds: readonly number[], start: number): Repeat | null {
  let best: Repeat | null = null;
  for (let period = 1; period <= LONGEST_PATTERN; period++) {
    let end = start + period;
    while (end < kinds.length && kinds[end] === kinds[end - period]) end++;
    const repeats = Math.floor((end - start) / period);
    const isEnough = repeats >= FEWEST_REPEATS && repeats * period >= 2 * FEWEST_REPEATS;
    if (isEnough && (!best || repeats * period > best.period * best.repeats)) best = { period, repeats };
  }
  return best;
}

function chapters(tree: GraphTree, parent: number, children: readonly number[], shapes: Uint32Array): number[] {
  const units = unitsOf(tree, children);
  if (units.length < 2) return [...children].slice(0, MOST_SIBLINGS);
  const period = repeatAt(kindsOf(units, shapes), 0)?.period ?? 1;
  const length = Math.max(Math.floor(CHAPTER / period), 1) * period;
  const folded: number[] = [];
  for (let place = 0; place < units.length; place += length) {
    const members = units.slice(place, place + length).flat();
    folded.push(members.length > 1 ? addStack(tree, parent, members) : (members[0] ?? NO_ITEM));
  }
  return folded;
}

function addFolded(tree: GraphTree, parent: number, members: readonly number[], shapes: Uint32Array): number {
  const id = addStack(tree, parent, members);
  const stack = tree.items[id];
  while (stack && stack.children.length > MOST_SIBLINGS) stack.children = chapters(tree, id, stack.children, shapes);
  return id;
}

function addStack(tree: GraphTree, parent: number, members: readonly number[]): number {
  const id = tree.items.length;
  const items = members.flatMap((member) => tree.items[member] ?? []);
  const named = items.filter(({ kind }) => kind !== "join");
  const [first, last] = [named[0], named.at(-1)];
  tree.items.push({
    id,
    kind: "stack",
    label: `${endOf(first, tree, 0)} … ${endOf(last, tree, -1)}`,
    module: null,
    parent,
    children: [...members],
    order: first?.order ?? Infinity,
    modules: items.reduce((sum, item) => sum + item.modules, 0),
    call: 0,
  });
  for (const item of items) item.parent = id;
  return id;
}

function endOf(item: Item | undefined, tree: GraphTree, place: 0 | -1): string {
  let at = item;
  while (at?.kind === "stack") at = tree.items[at.children.at(place) ?? NO_ITEM];
  return at?.label ?? "";
}
