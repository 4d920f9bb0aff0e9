/** What the boxes of the graph are coloured by: the newest statistic of what each module holds. */

import type { Kind, TableAnswer } from "../wire/types";
import { inside, type GraphTree, type Item } from "./graph-tree";

export interface Measure {
  readonly key: string;
  readonly label: string;
  readonly meaning: string;
  /** null: from the graph itself. */
  readonly kind: Kind | null;
  readonly statistic: string;
  /** Divided by the same statistic of the same tensor of this kind. */
  readonly over?: Kind;
  readonly scale: "log" | "share";
  /** What a box with several values shows. "length": root of the sum of squares, as norms add up. */
  readonly combine: "length" | "median" | "most" | "sum";
}

export const MEASURES: readonly Measure[] = [
  {
    key: "gradient",
    label: "Gradient norm",
    kind: "gradient",
    statistic: "norm",
    scale: "log",
    combine: "length",
    meaning: "norm of the gradients of the module's parameters",
  },
  {
    key: "ratio",
    label: "Update ÷ weight",
    kind: "update",
    statistic: "norm",
    over: "weight",
    scale: "log",
    combine: "median",
    meaning: "norm of the update divided by the norm of the weight it changes; about 0.001 is typical",
  },
  {
    key: "rms",
    label: "Activation rms",
    kind: "activation",
    statistic: "rms",
    scale: "log",
    combine: "median",
    meaning: "typical magnitude of the module's output",
  },
  {
    key: "dead",
    label: "Inactive units",
    kind: "activation",
    statistic: "inactive_units",
    scale: "share",
    combine: "most",
    meaning: "share of units that were zero for every input",
  },
  {
    key: "zeros",
    label: "Zeros in activations",
    kind: "activation",
    statistic: "zeros",
    scale: "share",
    combine: "most",
    meaning: "share of the module's output that is exactly zero",
  },
  {
    key: "nonfinite",
    label: "Non-finite activations",
    kind: "activation",
    statistic: "nonfinite",
    scale: "share",
    combine: "most",
    meaning: "share of the module's output that is NaN or infinite",
  },
  {
    key: "weight",
    label: "Weight norm",
    kind: "weight",
    statistic: "norm",
    scale: "log",
    combine: "length",
    meaning: "norm of the module's parameters",
  },
  {
    key: "parameters",
    label: "Parameters",
    kind: null,
    statistic: "",
    scale: "log",
    combine: "sum",
    meaning: "number of parameters",
  },
];

export function measureOf(key: string | undefined): Measure {
  return MEASURES.find((measure) => measure.key === key) ?? (MEASURES[0] as Measure);
}

/** How several values become one, in words: "of 12 values the greatest". */
export function combinedTitle(measure: Measure, count: number): string {
  if (count < 2) return measure.label;
  const how = { length: "norm over all", median: "median", most: "largest", sum: "sum" }[measure.combine];
  return `${measure.label} (${how} of ${count})`;
}

export interface Health {
  /** NaN: nothing is known. */
  readonly value: number;
  /** Of each module in the box that has one, in the order of execution. */
  readonly parts: readonly number[];
}

/** Names of the series of each module's own parameters. */
export function parameterNames(tree: GraphTree, name: string): readonly string[] {
  const module = tree.items[tree.byName.get(name) ?? -1]?.module;
  if (!module) return [];
  // The root of a single model is named after its class, and that is no part of the names of its parameters.
  return module.own_parameters.flatMap((own) => {
    const inner = [`${name}.${own.name}`, `${name}/${own.name}`];
    return module.parent === null ? [...inner, own.name] : inner;
  });
}

/** The module that an activation belongs to; a module with several outputs has several: "lstm[0]", "lstm[1][0]". */
export function moduleOfActivation(names: ReadonlyMap<string, number>, series: string): string | null {
  for (let end = series.length; end > 0; end = series.lastIndexOf("[", end - 1)) {
    const name = series.slice(0, end);
    if (names.has(name)) return name;
  }
  return null;
}

/** The measure of each module by name, from the newest table of its kind and that of what it is divided by. */
export function ownValues(
  tree: GraphTree,
  measure: Measure,
  table: TableAnswer | null,
  divisor: TableAnswer | null,
): ReadonlyMap<string, number> {
  if (measure.kind === null) return ownParameters(tree);
  const bySeries = columnOf(table, measure.statistic);
  if (measure.over !== undefined) {
    const under = columnOf(divisor, measure.statistic);
    for (const [name, value] of bySeries) bySeries.set(name, value / (under.get(name) ?? NaN));
  }
  return measure.kind === "activation" ? ofActivations(tree, measure, bySeries) : ofParameters(tree, measure, bySeries);
}

/** A statistic of each tensor by its name. */
export function columnOf(table: TableAnswer | null, statistic: string): Map<string, number> {
  const column = table?.statistics.get(statistic);
  if (!table || !column) return new Map();
  return new Map(table.names.map((name, place) => [name, column[place] ?? NaN]));
}

function ownParameters(tree: GraphTree): Map<string, number> {
  const found = new Map<string, number>();
  for (const name of tree.byName.keys()) {
    const own = tree.items[tree.byName.get(name) ?? -1]?.module?.own_parameters ?? [];
    const count = own.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
    if (count > 0) found.set(name, count);
  }
  return found;
}

function ofParameters(tree: GraphTree, measure: Measure, bySeries: ReadonlyMap<string, number>): Map<string, number> {
  const found = new Map<string, number>();
  for (const name of tree.byName.keys()) {
    const values = parameterNames(tree, name).flatMap((series) => bySeries.get(series) ?? []);
    if (values.length > 0) found.set(name, combined(measure, values));
  }
  return found;
}

function ofActivations(tree: GraphTree, measure: Measure, bySeries: ReadonlyMap<string, number>): Map<string, number> {
  const values = new Map<string, number[]>();
  for (const [series, value] of bySeries) {
    const name = moduleOfActivation(tree.byName, series);
    if (name !== null) values.set(name, [...(values.get(name) ?? []), value]);
  }
  return new Map([...values].map(([name, all]) => [name, combined(measure, all)]));
}

/** The value of a box, and of each module inside of it that has one. */
export function healthOf(tree: GraphTree, item: Item, measure: Measure, own: ReadonlyMap<string, number>): Health {
  const names = new Set<string>();
  for (const id of inside(tree.items, item.id)) {
    const name = tree.items[id]?.module?.name;
    if (name !== undefined) names.add(name);
  }
  const parts = [...names].flatMap((name) => own.get(name) ?? []).filter((value) => !Number.isNaN(value));
  return { value: combined(measure, parts), parts };
}

/** NaN of nothing. */
export function combined(measure: Measure, values: readonly number[]): number {
  const known = values.filter((value) => !Number.isNaN(value));
  if (known.length === 0) return NaN;
  if (measure.combine === "length") return Math.hypot(...known);
  if (measure.combine === "sum") return known.reduce((sum, value) => sum + value, 0);
  const sorted = [...known].sort((a, b) => a - b);
  if (measure.combine === "most") return sorted.at(-1) ?? NaN;
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle)] ?? NaN)) / 2;
}
