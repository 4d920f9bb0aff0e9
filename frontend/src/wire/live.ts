/** What the server pushes. */

import { signal } from "@preact/signals";

/** Whether nobody can see this page now: another tab of the browser, or of TensorBoard. */
export const hidden = signal(false);

type RunListener = (name: string) => void;
const listeners = new Set<RunListener>();

/** Calls `listener` with the name of a run that has new data; returns how to stop. */
export function onRunChange(listener: RunListener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function tellRunChange(name: string): void {
  for (const listener of listeners) listener(name);
}
