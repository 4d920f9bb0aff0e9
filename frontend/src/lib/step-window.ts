/** Windows of steps: zoomed, moved, and kept within what there is. */

import type { StepWindow } from "./heat";

const LEAST_STEPS = 2;

/** A window of whole steps inside `bounds`; null when it is all of them, so that it goes on following the run. */
export function kept(window: StepWindow, bounds: StepWindow): StepWindow | null {
  const span = Math.max(LEAST_STEPS - 1, Math.round(window.last - window.first));
  if (span >= bounds.last - bounds.first) return null;
  const first = Math.round(Math.min(Math.max(window.first, bounds.first), bounds.last - span));
  return { first, last: first + span };
}

/** `factor` below 1 shows less; `centre` stays where it is. */
export function zoomed(window: StepWindow, bounds: StepWindow, centre: number, factor: number): StepWindow | null {
  const next = {
    first: centre - (centre - window.first) * factor,
    last: centre + (window.last - centre) * factor,
  };
  return kept(next, bounds);
}

/** Moved by a share of its own width. */
export function moved(window: StepWindow, bounds: StepWindow, share: number): StepWindow | null {
  const by = share * (window.last - window.first + 1);
  return kept({ first: window.first + by, last: window.last + by }, bounds);
}

/** The part that was dragged over, from either side; null when it was too little to be meant. */
export function dragged(from: number, to: number, bounds: StepWindow): StepWindow | null {
  const [first, last] = [Math.floor(Math.min(from, to)), Math.floor(Math.max(from, to))];
  return kept({ first, last: Math.max(last, first + LEAST_STEPS - 1) }, bounds);
}
