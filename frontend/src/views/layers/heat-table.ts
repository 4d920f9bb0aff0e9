/** The answers to two heat queries as one table, with the rows that are seen of it. */

import { groupValues, type GroupRule } from "../../lib/heat";
import { againstOwnMedian } from "../../lib/heat-scale";
import { matches, type Row } from "../../lib/row-tree";
import type { Answer, HeatAnswer } from "../../wire/types";

export interface HeatTable {
  readonly names: readonly string[];
  readonly first: Float64Array;
  readonly last: Float64Array;
  /** One row a name. */
  readonly values: Float32Array;
  /** What is drawn: the values, or what they are against the row's own median. */
  readonly drawn: Float32Array;
  /** Shares of non-finite values, of the same shape; null when nobody knows them. */
  readonly bad: Float32Array | null;
}

export function heatAnswer(answer: Answer | undefined): HeatAnswer | null {
  return answer?.what === "heat" ? answer : null;
}

/** Only the rows whose names the search finds. `bad` may have come a moment later and have more columns. */
export function heatTable(heat: HeatAnswer, bad: HeatAnswer | null, search: string, relative: boolean): HeatTable {
  const columns = heat.first.length;
  const kept = matches(heat.names, search);
  const sameShape = bad !== null && bad.values.length === heat.values.length && bad.names.length === heat.names.length;
  const values = rowsOf(heat.values, columns, kept);
  return {
    names: kept.map((i) => heat.names[i] ?? ""),
    first: heat.first,
    last: heat.last,
    values,
    drawn: relative ? againstOwnMedian(values, columns) : values,
    bad: sameShape ? rowsOf(bad.values, columns, kept) : null,
  };
}

function rowsOf(values: Float32Array, columns: number, rows: readonly number[]): Float32Array {
  if (rows.length * columns === values.length) return values;
  const kept = new Float32Array(rows.length * columns);
  rows.forEach((row, i) => kept.set(values.subarray(row * columns, (row + 1) * columns), i * columns));
  return kept;
}

/** What a row shows in its cells: a tensor its own values, a closed group those that stand for it. */
export function rowValues(of: Float32Array, table: HeatTable, row: Row, rule: GroupRule): Float32Array {
  const columns = table.first.length;
  if (row.to - row.from === 1) return of.subarray(row.from * columns, row.to * columns);
  return groupValues(of, columns, row.from, row.to, rule);
}

export function groupRule(statistic: string): GroupRule {
  return statistic === "min" ? "least" : "farthest";
}
