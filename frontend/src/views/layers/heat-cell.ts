/** What one cell of the heat map says, in words. */

import { formatCount, formatNumber, formatPercent } from "../../lib/format";
import { columnAt, columnEnds } from "../../lib/heat";
import type { GroupRule } from "../../lib/heat";
import type { Row } from "../../lib/row-tree";
import { shownName } from "../../lib/tensor-name";
import type { TensorStatistic } from "../../lib/tensor-statistics";
import { rowValues, type HeatTable } from "./heat-table";

export interface CellFacts {
  readonly name: string;
  readonly steps: string;
  /** null: there is no sample. */
  readonly value: string | null;
  /** Against the row's own median, where that is what the colours show. */
  readonly change: string | null;
  readonly bad: string | null;
  /** Of a closed group: which tensor the value belongs to. */
  readonly of: string | null;
}

/** The column of the heat map at a step; -1 where none is drawn. */
export function drawnColumn(table: HeatTable, step: number): number {
  const column = columnAt(table.first, step);
  const end = columnEnds(table.first, table.last)[column];
  return end !== undefined && step < end ? column : -1;
}

export function cellFacts(
  table: HeatTable,
  row: Row,
  column: number,
  statistic: TensorStatistic,
  rule: GroupRule,
): CellFacts {
  const value = rowValues(table.values, table, row, rule)[column] ?? NaN;
  const drawn = rowValues(table.drawn, table, row, rule)[column] ?? NaN;
  const bad = table.bad ? (rowValues(table.bad, table, row, "farthest")[column] ?? NaN) : NaN;
  const isGroup = row.to - row.from > 1;
  return {
    name: shownName(row.name),
    steps: stepsText(table.first[column] ?? NaN, table.last[column] ?? NaN),
    value: Number.isNaN(value) ? null : formatStatistic(value, statistic),
    change: table.drawn === table.values || Number.isNaN(drawn) ? null : `× ${formatNumber(drawn, 3)}`,
    bad: bad > 0 ? `${formatPercent(bad)} of the values` : null,
    of: isGroup ? ownerText(table, row, column, value) : null,
  };
}

export function formatStatistic(value: number, statistic: TensorStatistic): string {
  return statistic.scale === "share" ? formatPercent(value) : formatNumber(value, 5);
}

export function stepsText(first: number, last: number): string {
  return last > first ? `${formatCount(first)} – ${formatCount(last)}` : formatCount(first);
}

function ownerText(table: HeatTable, row: Row, column: number, value: number): string | null {
  for (let i = row.from; i < row.to; i++) {
    if (table.values[i * table.first.length + column] === value) return shownName(table.names[i] ?? "");
  }
  return null;
}

/** For a screen reader. */
export function cellSentence(facts: CellFacts, statistic: TensorStatistic): string {
  const missing = facts.bad ? "no finite value" : "no sample";
  const value = facts.value === null ? missing : `${statistic.label} ${facts.value}`;
  return `${facts.name}, step ${facts.steps}, ${value}${facts.bad ? `, not finite: ${facts.bad}` : ""}`;
}
