/** Keys of the debugger, as in the tools of a browser. */

import { HeldKey } from "../lib/held-key";
import type { StepBy } from "../wire/debugger-types";
import { entry, pauseOrContinue, step } from "./debugger";
import { page } from "./state";

export const DEBUGGER_KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["F8", "Continue or pause the run; also Ctrl \\"],
  ["F10", "Step to the next layer; hold it to keep stepping"],
  ["F11", "Step to the next operation"],
  ["Shift F11", "Step to the end of the batch"],
];

const held = new HeldKey<StepBy>((by) => step(by));

export function listenToDebuggerKeys(isTyping: (target: EventTarget | null) => boolean): void {
  document.addEventListener("keydown", (event) => {
    if (page.peek() !== "debugger" || !entry.peek() || event.defaultPrevented || isTyping(event.target)) return;
    if (act(event)) event.preventDefault();
  });
  document.addEventListener("keyup", () => held.release());
  // The key may be let go of in another window.
  window.addEventListener("blur", () => held.release());
}

function act(event: KeyboardEvent): boolean {
  const isContinue = event.key === "F8" || ((event.ctrlKey || event.metaKey) && event.key === "\\");
  if (isContinue) {
    if (!event.repeat) pauseOrContinue();
    return true;
  }
  const by = stepOf(event);
  if (by === null) return false;
  if (!event.repeat) held.press(by);
  return true;
}

function stepOf({ key, shiftKey, ctrlKey, altKey, metaKey }: KeyboardEvent): StepBy | null {
  if (ctrlKey || altKey || metaKey) return null;
  if (key === "F10" && !shiftKey) return "layer";
  if (key === "F11") return shiftKey ? "batch" : "op";
  return null;
}
