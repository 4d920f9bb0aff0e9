/** The modules of a training as a tree of rows. */

import type { DebuggedModule } from "../wire/debugger-types";

export interface ModuleRow {
  readonly module: DebuggedModule;
  /** What the rows above do not say already. */
  readonly label: string;
  readonly depth: number;
  readonly hasChildren: boolean;
  readonly open: boolean;
}

export interface ModuleTree {
  readonly roots: readonly DebuggedModule[];
  readonly children: ReadonlyMap<string, readonly DebuggedModule[]>;
  readonly byName: ReadonlyMap<string, DebuggedModule>;
  /** Depth up to which rows begin open. */
  readonly openDepth: number;
}

const MOST_ROWS_AT_FIRST = 60;

export function moduleTree(modules: readonly DebuggedModule[]): ModuleTree {
  const byName = new Map(modules.map((each) => [each.name, each]));
  const children = new Map<string, DebuggedModule[]>();
  const roots: DebuggedModule[] = [];
  for (const module of modules) {
    const parent = module.parent !== null && module.parent !== module.name ? byName.get(module.parent) : undefined;
    if (!parent) roots.push(module);
    else children.set(parent.name, [...(children.get(parent.name) ?? []), module]);
  }
  return { roots, children, byName, openDepth: openDepth(roots, children) };
}

/** As deep as there is room for at first, and at least one. */
function openDepth(roots: readonly DebuggedModule[], children: ModuleTree["children"]): number {
  let [level, rows, depth] = [roots, roots.length, 0];
  for (; level.length > 0; depth++) {
    level = level.flatMap((each) => children.get(each.name) ?? []);
    rows += level.length;
    if (rows > MOST_ROWS_AT_FIRST) break;
  }
  return Math.max(1, depth);
}

/** The module and those around it, innermost first. */
export function chainOf(tree: ModuleTree, name: string | null): string[] {
  const chain: string[] = [];
  let module = name === null ? undefined : tree.byName.get(name);
  while (module && !chain.includes(module.name)) {
    chain.push(module.name);
    module = module.parent === null ? undefined : tree.byName.get(module.parent);
  }
  return chain;
}

/** Those around `place` are open whatever `toggled` says: one sees where the training is. */
export function moduleRows(tree: ModuleTree, toggled: ReadonlySet<string>, place: string | null): ModuleRow[] {
  const around = new Set(chainOf(tree, place).slice(1));
  const rows: ModuleRow[] = [];
  const visit = (modules: readonly DebuggedModule[], depth: number): void => {
    for (const module of modules) {
      const inner = tree.children.get(module.name) ?? [];
      const isChosen = depth < tree.openDepth !== toggled.has(module.name);
      const isOpen = inner.length > 0 && (around.has(module.name) || isChosen);
      rows.push({ module, label: labelOf(module), depth, hasChildren: inner.length > 0, open: isOpen });
      // A broken list may name circles; nothing is as deep as this.
      if (isOpen && depth < 100) visit(inner, depth + 1);
    }
  };
  visit(tree.roots, 0);
  return rows;
}

function labelOf({ name, parent }: DebuggedModule): string {
  if (parent !== null && name.startsWith(`${parent}.`)) return name.slice(parent.length + 1);
  return parent === null ? name : name.slice(name.lastIndexOf(".") + 1);
}

/** The module that a tensor belongs to, by the longest name that is a part of its own; null: none. */
export function moduleOfTensor(tree: ModuleTree, tensor: string): string | null {
  let name = tensor.slice(tensor.indexOf(":") + 1);
  while (name !== "") {
    if (tree.byName.has(name)) return name;
    name = name.slice(0, Math.max(name.lastIndexOf("."), name.lastIndexOf("["), name.lastIndexOf("/"), 0));
  }
  return null;
}
