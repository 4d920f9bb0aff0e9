import type { JSX } from "preact";
import { nearestIndex } from "../lib/nearest";
import { shownName } from "../lib/tensor-name";
import type { LineSeries } from "./line-series";

export interface TooltipRow {
  readonly label: string;
  readonly colour: string;
  readonly dash: boolean;
  readonly text: string;
  readonly x: number;
  readonly y: number;
}

const MOST_ROWS = 12;

/** What each series has nearest to `x`, the greatest first; series that are not there are left out. */
export function rowsAt(series: readonly LineSeries[], x: number, format: (value: number) => string): TooltipRow[] {
  const rows = series.flatMap((each) => {
    const index = nearestIndex(each.x, x);
    if (index < 0 || beyond(each.x, x)) return [];
    const y = each.y[index] ?? NaN;
    const bad = (each.bad?.[index] ?? 0) > 0;
    const text = Number.isFinite(y) ? format(y) + (bad ? " and non-finite" : "") : bad ? "not finite" : "–";
    return [
      { label: each.label, colour: each.colour, dash: (each.dash?.length ?? 0) > 0, text, x: each.x[index] ?? x, y },
    ];
  });
  return rows.sort((a, b) => (Number.isFinite(b.y) ? b.y : -Infinity) - (Number.isFinite(a.y) ? a.y : -Infinity));
}

/** Whether a series has ended, or not begun, clearly before this x. */
function beyond(xs: Float64Array, x: number): boolean {
  const [first, last] = [xs[0] ?? 0, xs[xs.length - 1] ?? 0];
  const margin = (last - first) * 0.02 + 1;
  return x < first - margin || x > last + margin;
}

export interface TooltipProps {
  readonly rows: readonly TooltipRow[];
  readonly title: string;
  readonly left: number;
  readonly width: number;
}

/** Beside the crosshair, on the side where there is room. */
export function Tooltip({ rows, title, left, width }: TooltipProps): JSX.Element {
  const side =
    left > width / 2 ? { right: `${Math.round(width - left + 14)}px` } : { left: `${Math.round(left + 14)}px` };
  return (
    <div class="tooltip" style={side}>
      <div class="tooltip-title">{title}</div>
      {rows.slice(0, MOST_ROWS).map((row) => (
        <div key={row.label} class="tooltip-row">
          <span class={`swatch ${row.dash ? "dashed" : ""}`} style={{ color: row.colour }} />
          <bdi class="tooltip-label">{shownName(row.label).slice(0, 120)}</bdi>
          <span class="tooltip-value">{row.text}</span>
        </div>
      ))}
      {rows.length > MOST_ROWS && <div class="faint">and {rows.length - MOST_ROWS} more</div>}
    </div>
  );
}

const MOST_LEGEND = 8;

/** The lines by name below a chart, with their values under the crosshair, else their newest. */
export function Legend({ series, x, format }: LegendProps): JSX.Element {
  const drawn = series.filter((each) => each.x.length > 0);
  const found = x === null ? null : new Map(rowsAt(drawn, x, format).map((row) => [row.label, row.text]));
  const newest = ({ y }: LineSeries): string => format(y[y.length - 1] ?? NaN);
  return (
    <ul class="legend">
      {drawn.slice(0, MOST_LEGEND).map((each) => (
        <li key={each.label} class="legend-entry">
          <span class={`swatch ${each.dash?.length ? "dashed" : ""}`} style={{ color: each.colour }} />
          <bdi class="tooltip-label">{shownName(each.label).slice(0, 120)}</bdi>
          <span class="faint">{found ? (found.get(each.label) ?? "–") : newest(each)}</span>
        </li>
      ))}
      {drawn.length > MOST_LEGEND && <li class="faint">and {drawn.length - MOST_LEGEND} more</li>}
    </ul>
  );
}

export interface LegendProps {
  readonly series: readonly LineSeries[];
  /** Under the crosshair; null: nowhere. */
  readonly x: number | null;
  readonly format: (value: number) => string;
}
