import type { JSX } from "preact";
import { formatCount, formatNumber, formatPercent } from "../../lib/format";
import { largestGap, quantilesOf } from "../../lib/quantiles";
import type { Histogram } from "../../wire/types";
import { countOf } from "./beside";

export interface TablesProps {
  readonly histograms: readonly Histogram[];
}

interface TableRow {
  readonly label: string;
  readonly hint?: string;
  readonly of: (histogram: Histogram) => number;
  readonly format?: (value: number) => string;
  /** Whether it is worth a row; absent: when anybody measured it. */
  readonly when?: (histograms: readonly Histogram[]) => boolean;
}

const named =
  (name: string) =>
  (histogram: Histogram): number =>
    histogram.statistics.get(name) ?? NaN;

const STATISTIC_ROWS: readonly TableRow[] = [
  {
    label: "samples",
    hint: "Number of merged samples; the values below are those of a typical one",
    of: (each) => each.merged,
    format: formatCount,
    when: (histograms) => histograms.some((each) => each.merged > 1),
  },
  { label: "values", hint: "All values, including non-finite ones", of: countOf, format: formatCount },
  { label: "mean", of: named("mean") },
  { label: "std", of: named("std") },
  { label: "norm", hint: "Root of the sum of squares", of: named("norm") },
  { label: "rms", hint: "Root of the mean square", of: named("rms") },
  { label: "abs max", hint: "Largest magnitude", of: named("abs_max") },
  { label: "zeros", of: named("zeros"), format: formatPercent },
  { label: "non-finite", of: named("nonfinite"), format: formatPercent },
  { label: "update ÷ weight", hint: "About 0.001 is typical", of: named("ratio") },
  {
    label: "inactive units",
    hint: "Zero for every input of the window",
    of: named("inactive_units"),
    format: formatPercent,
  },
];

const SHARES = [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1];
const SHARE_LABELS = ["min", "1 %", "5 %", "25 %", "median", "75 %", "95 %", "99 %", "max"];

/** The numbers behind the picture: statistics, and quantiles of the finite values. */
export function Tables({ histograms }: TablesProps): JSX.Element {
  const quantiles = new Map(histograms.map((each) => [each, quantilesOf(each, SHARES)]));
  const quantileRows = SHARE_LABELS.map((label, i) => ({
    label,
    of: (each: Histogram) => quantiles.get(each)?.[i] ?? NaN,
  }));
  return (
    <div class={`histogram-tables ${histograms.length > 1 ? "two" : ""}`}>
      <NumberTable title="Statistics" rows={STATISTIC_ROWS} histograms={histograms} />
      <div>
        <NumberTable title="Quantiles" rows={quantileRows} histograms={histograms} />
        <Distance histograms={histograms} />
      </div>
    </div>
  );
}

interface NumberTableProps extends TablesProps {
  readonly title: string;
  readonly rows: readonly TableRow[];
}

function NumberTable({ title, rows, histograms }: NumberTableProps): JSX.Element {
  const two = histograms.length > 1;
  const measured = (row: TableRow): boolean => histograms.some((each) => !Number.isNaN(row.of(each)));
  const known = rows.filter((row) => row.when?.(histograms) ?? measured(row));
  return (
    <table class="numbers">
      <thead>
        <tr>
          <th scope="col">{title}</th>
          {histograms.map((_, which) => (
            <th key={which} scope="col">
              {two ? "AB"[which] : ""}
            </th>
          ))}
          {two && <th scope="col">B ÷ A</th>}
        </tr>
      </thead>
      <tbody>
        {known.map((row) => (
          <tr key={row.label}>
            <th scope="row" title={row.hint}>
              {row.label}
            </th>
            {histograms.map((each, which) => (
              <td key={which}>{(row.format ?? fourDigits)(row.of(each))}</td>
            ))}
            {two && <td class="muted">{ratio(histograms.map(row.of))}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function fourDigits(value: number): string {
  return Number.isNaN(value) ? "–" : formatNumber(value, 4);
}

function ratio([a, b]: readonly number[]): string {
  const times = (b ?? NaN) / (a ?? NaN);
  return Number.isFinite(times) ? `× ${formatNumber(times, 3)}` : "–";
}

function Distance({ histograms }: TablesProps): JSX.Element | null {
  const [a, b] = histograms;
  if (!a || !b) return null;
  return (
    <p
      class="muted"
      title="Largest difference between the cumulative distributions (Kolmogorov–Smirnov): 0 if they are the same, 100 % if they do not overlap"
    >
      Distance between the distributions: {formatPercent(largestGap(a, b))}
    </p>
  );
}
