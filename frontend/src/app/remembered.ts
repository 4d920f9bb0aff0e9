/** Choices that outlive the page. Other hosts of TensorBoard may forbid the store; then nothing is remembered. */

import type { Signal } from "@preact/signals";

const PREFIX = "netdebug.";

/** Fills the signal with what was remembered under `name` when `valid` says so, and remembers what it becomes. */
export function remember<Value>(name: string, target: Signal<Value>, valid: (found: unknown) => found is Value): void {
  const found = read(name);
  if (valid(found)) target.value = found;
  target.subscribe((value) => write(name, value));
}

function read(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

function write(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Full or forbidden: the choice holds as long as the page.
  }
}
