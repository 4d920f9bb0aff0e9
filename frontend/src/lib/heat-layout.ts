/** Where things are on the heat map, in CSS pixels: names on the left, cells on the right, steps below. */

import type { StepWindow } from "./heat";

export interface HeatLayout {
  readonly width: number;
  /** Of what is seen at once, without the axis of steps. */
  readonly height: number;
  readonly labels: number;
  readonly rowHeight: number;
  readonly rows: number;
  /** Of all rows together. */
  readonly total: number;
}

const LEAST_ROW = 13;
const MOST_ROW = 26;
export const AXIS_HEIGHT = 22;

/** `names` is the width that the names would like to have. */
export function heatLayout(width: number, height: number, rows: number, names: number): HeatLayout {
  const rowHeight = rowHeightFor(height, rows);
  const labels = Math.round(Math.min(names, Math.max(96, width * 0.28)));
  return { width, height, labels, rowHeight, rows, total: rows * rowHeight };
}

function rowHeightFor(height: number, rows: number): number {
  return Math.min(MOST_ROW, Math.max(LEAST_ROW, Math.floor(height / Math.max(1, rows))));
}

/** How tall the map wants to be when its place offers so much: no taller than its rows. */
export function wantedHeight(rows: number, offered: number): number {
  return Math.max(MOST_ROW, Math.min(offered, rows * rowHeightFor(offered, rows)));
}

/** The rows that show something of themselves when scrolled so far, `to` excluded. */
export function rowsInSight(layout: HeatLayout, scroll: number): { from: number; to: number } {
  const from = Math.max(0, Math.floor(scroll / layout.rowHeight));
  return { from, to: Math.min(layout.rows, Math.ceil((scroll + layout.height) / layout.rowHeight)) };
}

/** -1 beside the rows. */
export function rowAt(layout: HeatLayout, y: number, scroll: number): number {
  const row = Math.floor((y + scroll) / layout.rowHeight);
  return y >= 0 && y < layout.height && row >= 0 && row < layout.rows ? row : -1;
}

export function stepToX(layout: HeatLayout, window: StepWindow, step: number): number {
  return layout.labels + ((step - window.first) / (window.last - window.first + 1)) * (layout.width - layout.labels);
}

/** A step with a fraction: how far into its column the place is. Outside the window beside the cells. */
export function xToStep(layout: HeatLayout, window: StepWindow, x: number): number {
  return window.first + ((x - layout.labels) / (layout.width - layout.labels)) * (window.last - window.first + 1);
}

/** The scroll at which a row is seen whole, as near to the present one as can be. */
export function scrollFor(layout: HeatLayout, row: number, scroll: number): number {
  const top = row * layout.rowHeight;
  return Math.min(top, Math.max(scroll, top + layout.rowHeight - layout.height));
}

/** The text if it fits, else its beginning and its end, which tell parameters of one layer apart, around an ellipsis. */
export function elided(text: string, width: number, measure: (text: string) => number): string {
  // Names may have any length; nobody sees more than this of one.
  const whole = text.length > 400 ? `${text.slice(0, 200)}…${text.slice(-200)}` : text;
  if (measure(whole) <= width) return whole;
  const letters = Array.from(whole);
  let [fits, fails] = [0, letters.length];
  while (fits + 1 < fails) {
    const keep = (fits + fails) >> 1;
    if (measure(shortened(letters, keep)) <= width) fits = keep;
    else fails = keep;
  }
  return shortened(letters, fits);
}

function shortened(letters: readonly string[], keep: number): string {
  const head = Math.floor(keep * 0.4);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (keep - head)).join("")}`;
}
