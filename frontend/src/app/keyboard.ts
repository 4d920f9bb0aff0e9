/** Keys of the whole page. Charts and canvases in focus take theirs before. */

import { moveCursor } from "../charts/cursor";
import { listenToDebuggerKeys } from "./debugger-keys";
import { drawerOpen, helpOpen, page, PAGES, paused, range } from "./state";

export const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["1 – 7", "Open a page"],
  ["/", "Search runs"],
  ["Space", "Pause or resume live updates"],
  ["← →", "Move the cursor by one point; with Shift, by ten"],
  ["R", "Show all steps"],
  ["?", "Show this list"],
  ["Esc", "Close the open panel"],
];

export function listenToKeys(): void {
  listenToDebuggerKeys(isTyping);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape") return close();
    if (isTyping(event.target)) return;
    if (act(event)) event.preventDefault();
  });
}

function act(event: KeyboardEvent): boolean {
  const number = PAGES[Number(event.key) - 1];
  if (number) page.value = number;
  else if (event.key === "/") openSearch();
  else if (event.key === " ") return pause(event.target);
  else if (event.key === "r" || event.key === "R") range.value = null;
  else if (event.key === "?") helpOpen.value = !helpOpen.peek();
  else if (event.key === "ArrowLeft") return moveCursor(event.shiftKey ? -10 : -1);
  else if (event.key === "ArrowRight") return moveCursor(event.shiftKey ? 10 : 1);
  else return false;
  return true;
}

/** A button in focus is pressed by the space bar; that comes first. */
function pause(target: EventTarget | null): boolean {
  if (target instanceof Element && target.closest("button, a, summary, label")) return false;
  paused.value = !paused.peek();
  return true;
}

function openSearch(): void {
  drawerOpen.value = true;
  // The drawer has to be there before it can take the focus.
  requestAnimationFrame(() => document.getElementById("search")?.focus());
}

function close(): void {
  helpOpen.value = false;
  drawerOpen.value = false;
  if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null;
}
