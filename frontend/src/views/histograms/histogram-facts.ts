/** What a bar of the histogram says, and all of them as a table. */

import type { CsvRow } from "../../charts/export";
import { formatCount, formatNumber, formatPercent } from "../../lib/format";
import { heights, type Histogram } from "../../lib/histogram-shape";
import { commonCells } from "../../lib/rebin";
import type { FactsProps } from "../layers/tooltip";
import type { HistogramScene } from "./histogram-picture";

export function barFacts({ bars, width }: HistogramScene, cell: number): FactsProps["rows"] {
  const { lower, upper, counts, bins } = bars.cells;
  const [from, to] = [lower[cell] ?? NaN, upper[cell] ?? NaN];
  const two = counts.length > 1;
  const rows: [string, string, ("bad" | "muted")?][] = [
    [
      from === to ? "value" : "values",
      from === to ? formatNumber(from, 5) : `${formatNumber(from, 4)} … ${formatNumber(to, 4)}`,
    ],
  ];
  counts.forEach((column, which) => {
    const count = column[cell] ?? 0;
    const side = two ? ["A: ", "B: "][which] : "";
    rows.push([`${side}count`, Number.isInteger(count) ? formatCount(count) : formatNumber(count, 4)]);
    rows.push([`${side}of all`, formatPercent(count / (bars.totals[which] || 1))]);
  });
  if (!two) rows.push(["density", formatNumber(heights(bars, 0, "density", width)[cell] ?? 0, 3)]);
  const joined = bins[cell] ?? 1;
  if (joined > (two ? 2 : 1)) rows.push(["bins joined", String(joined), "muted"]);
  return rows;
}

/** The bins as the sketch has them, not as the screen joins them. */
export function binRows(histograms: readonly Histogram[]): CsvRow[] {
  if (histograms.length < 2) {
    const bins = histograms[0]?.bins;
    const rows = Array.from(
      bins?.counts ?? [],
      (count, i): CsvRow => [bins?.lower[i] ?? null, bins?.upper[i] ?? null, count],
    );
    return [["lower", "upper", "count"], ...rows];
  }
  const cells = commonCells(
    histograms.map((each) => each.bins),
    (value) => value,
    0,
  );
  const rows = Array.from(
    cells.lower,
    (lower, i): CsvRow => [lower, cells.upper[i] ?? null, ...cells.counts.map((column) => column[i] ?? 0)],
  );
  return [["lower", "upper", "count_a", "count_b"], ...rows];
}
