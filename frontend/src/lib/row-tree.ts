/**
 * Tensors in the order of execution, grouped by what their dotted names begin with. Only neighbours form a group, so
 * the order is never broken: a prefix that comes back later is a group of its own.
 */

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

/** Fewer tensors than this need no groups. */
export const GROUPED_FROM = 12;
const MOST_ROWS_AT_FIRST = 70;

export interface RowTree {
  readonly roots: readonly Node[];
  /** Depth up to which groups begin open, so that the first picture is not too long. */
  readonly openDepth: number;
  readonly hasGroups: boolean;
}

export function rowTree(names: readonly string[], grouped: boolean): RowTree {
  const parts = names.map((name) => name.split("."));
  const roots = grouped ? grow(parts, 0, parts.length, 0) : parts.map((own, i) => leaf(own, i, 0));
  const hasGroups = roots.some((node) => node.children.length > 0);
  return { roots, hasGroups, openDepth: openDepth(roots, names.length) };
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
    while (end < to && own.length > depth + 1 && parts[end]?.[depth] === own[depth] && (parts[end]?.length ?? 0) > depth + 1) end++;
    nodes.push(end === start + 1 ? leaf(own, start, depth) : group(parts, start, end, depth));
    start = end;
  }
  return nodes;
}

/** A group whose tensors share more than one part of their names is one group, not a chain of them. */
function group(parts: readonly (readonly string[])[], from: number, to: number, depth: number): Node {
  const own = parts[from] ?? [];
  let end = depth + 1;
  const sharesPart = (at: number): boolean =>
    parts.slice(from, to).every((other) => other.length > at + 1 && other[at] === own[at]);
  while (sharesPart(end)) end++;
  const children = grow(parts, from, to, end);
  return { name: own.slice(0, end).join("."), label: own.slice(depth, end).join("."), from, to, children };
}

function openDepth(roots: readonly Node[], leaves: number): number {
  if (leaves <= 2 * MOST_ROWS_AT_FIRST) return Infinity;
  let depth = 0;
  while (countRows(roots, depth + 1) <= MOST_ROWS_AT_FIRST && countRows(roots, depth + 1) > countRows(roots, depth)) depth++;
  return depth;
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
      const open = isGroup && (depth < openDepth) !== toggled.has(key);
      const { name, label, from, to } = node;
      rows.push({ kind: isGroup ? "group" : "leaf", key, name, label, depth, from, to, open });
      if (open) visit(node.children, depth + 1);
    }
  };
  visit(tree.roots, 0);
  return rows;
}

/** Indexes of the names that contain every word of the search, in any case; all for an empty search. */
export function matches(names: readonly string[], search: string): number[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return names.flatMap((name, i) => (words.every((word) => name.toLowerCase().includes(word)) ? [i] : []));
}
