/** The steps that are shown: the range of the whole page, or all there are. */

import { range } from "../../app/state";
import { columnEnds, type StepWindow } from "../../lib/heat";
import { dragged, moved, zoomed } from "../../lib/step-window";
import type { RunRow } from "../../wire/types";

/** All steps of a run; null while nobody knows them. */
export function boundsOf(run: RunRow): StepWindow | null {
  if (run.first_step === null || run.last_step === null) return null;
  return { first: run.first_step, last: Math.max(run.last_step, run.first_step) };
}

/**
 * What a chart shows: the chosen range, else what came with the data, so that axis and data never disagree. The last
 * sample stands for the steps up to where the next would be, as far as there are some.
 */
export function shownWindow(first: Float64Array, last: Float64Array, bounds: StepWindow | null): StepWindow | null {
  if (range.value !== null) return range.value;
  const [from, to] = [first[0], last.at(-1)];
  if (from === undefined || to === undefined) return bounds;
  const end = (columnEnds(first, last).at(-1) ?? to + 1) - 1;
  return { first: from, last: Math.max(from, to, Math.min(end, bounds?.last ?? to)) };
}

export interface StepMoves {
  drag(from: number, to: number): void;
  /** `factor` below 1 shows less. */
  zoom(centre: number, factor: number): void;
  /** By a share of what is shown. */
  move(share: number): void;
  reset(): void;
}

/** Changes of the page's range, by what is done on a chart that shows `window`. */
export function stepMoves(window: StepWindow, bounds: StepWindow): StepMoves {
  return {
    drag: (from, to) => (range.value = dragged(from, to, bounds)),
    zoom: (centre, factor) => (range.value = zoomed(window, bounds, centre, factor)),
    move: (share) => (range.value = moved(window, bounds, share)),
    reset: () => (range.value = null),
  };
}

/** How much one notch of a wheel, or a pinch of a touch pad, zooms. */
export function wheelFactor(turned: number): number {
  return Math.exp(Math.max(-60, Math.min(60, turned)) * 0.006);
}

/** For a query: no limits while everything is shown, so that the answer follows the run. */
export function queryRange(): { first?: number; last?: number } {
  return range.value === null ? {} : { first: range.value.first, last: range.value.last };
}
