/**
 * Tensors in the order of execution, grouped by what their dotted names begin with. Only neighbours form a group, so
 * the order is never broken: a prefix that comes back later is a group of its own.
 */

import { isPartOf } from "./finding-marks";

export interface Row {
  readonly kind: "group" | "leaf";
  /** Unique and stable while tensors of the same order are listed. */
  readonly key: string;
  /** The whole dotted name: of the tensor, or of the prefix. */
  readonly name: string;
  /** What of the name the groups around the row do not say already. */
  readonly label: string;
  readonly depth: number;
  /** Tensors `from` … `to` - 1 of the list. */
  readonly from: number;
  readonly to: number;
  readonly open: boolean;
}

interface Node {
  name: string;
  label: string;
  from: number;
  to: number;
  children: Node[];
}

/** Fewer tensors than this are easier to read as a list. */
export const GROUPED_FROM = 40;
/** Smaller groups cost more rows than they save. */
const LEAST_GROUP = 4;
const MOST_ROWS_AT_FIRST = 70;
/** With fewer rows than this one sees too little: the next level is opened, if it is not all too long. */
const LEAST_ROWS_AT_FIRST = 12;

export interface RowTree {
  readonly roots: readonly Node[];
  /** Depth up to which groups begin open, so that the first picture is not too long. */
  readonly openDepth: number;
}

export function rowTree(names: readonly string[], grouped: boolean): RowTree {
  const parts = names.map((name) => name.split("."));
  const roots = grouped ? grow(parts, 0, parts.length, 0) : parts.map((own, i) => leaf(own, i, 0));
  return { roots, openDepth: openDepth(roots, names.length) };
}

function leaf(parts: readonly string[], index: number, depth: number): Node {
  const label = parts.slice(depth).join(".");
  return { name: parts.join("."), label, from: index, to: index + 1, children: [] };
}

function grow(parts: readonly (readonly string[])[], from: number, to: number, depth: number): Node[] {
  const nodes: Node[] = [];
  for (let start = from; start < to; ) {
    const own = parts[start] ?? [];
    let end = start + 1;
    while (end < to && sharePart(own, parts[end] ?? [], depth)) end++;
    if (end - start >= LEAST_GROUP) nodes.push(group(parts, start, end, depth));
    else for (let i = start; i < end; i++) nodes.push(leaf(parts[i] ?? [], i, depth));
    start = end;
  }
  return nodes;
}

/** Both have more parts after that one: the last part is the tensor's own. */
function sharePart(a: readonly string[], b: readonly string[], depth: number): boolean {
  return a.length > depth + 1 && b.length > depth + 1 && a[depth] === b[depth];
}

/** A group whose tensors share more than one part of their names is one group, not a chain of them. */
function group(parts: readonly (readonly string[])[], from: number, to: number, depth: number): Node {
  const own = parts[from] ?? [];
  let end = depth + 1;
  const members = parts.slice(from, to);
  while (members.every((other) => sharePart(own, other, end))) end++;
  const children = grow(parts, from, to, end);
  return { name: own.slice(0, end).join("."), label: own.slice(depth, end).join("."), from, to, children };
}

function openDepth(roots: readonly Node[], leaves: number): number {
  if (leaves <= 2 * MOST_ROWS_AT_FIRST) return Infinity;
  let depth = 0;
  for (let rows = countRows(roots, 0); ; depth++) {
    const next = countRows(roots, depth + 1);
    const most = rows < LEAST_ROWS_AT_FIRST ? 3 * MOST_ROWS_AT_FIRST : MOST_ROWS_AT_FIRST;
    if (next > most || next === rows) return depth;
    rows = next;
  }
}

function countRows(nodes: readonly Node[], depth: number): number {
  return nodes.reduce((sum, node) => sum + 1 + (depth > 0 ? countRows(node.children, depth - 1) : 0), 0);
}

/** The rows that are seen when the groups named in `toggled` are not as they begin. */
export function visibleRows(tree: RowTree, toggled: ReadonlySet<string>, openDepth = tree.openDepth): Row[] {
  const rows: Row[] = [];
  const visit = (nodes: readonly Node[], depth: number): void => {
    for (const node of nodes) {
      const isGroup = node.children.length > 0;
      const key = `${node.from}:${node.name}`;
      const open = isGroup && depth < openDepth !== toggled.has(key);
      const { name, label, from, to } = node;
      rows.push({ kind: isGroup ? "group" : "leaf", key, name, label, depth, from, to, open });
      if (open) visit(node.children, depth + 1);
    }
  };
  visit(tree.roots, 0);
  return rows;
}

/**
 * Indexes of the names that contain every word of the search, in any case; all for an empty search. A name in quotes
 * finds that layer with its parts, and no other whose name only begins alike.
 */
export function matches(names: readonly string[], search: string): number[] {
  const quoted = /^\s*"(.+)"\s*$/s.exec(search)?.[1];
  if (quoted !== undefined) return names.flatMap((name, i) => (isPartOf(name, quoted) ? [i] : []));
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return names.flatMap((name, i) => (words.every((word) => name.toLowerCase().includes(word)) ? [i] : []));
}
