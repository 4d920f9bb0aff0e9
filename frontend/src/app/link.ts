/** The page's state as a link: after `#netdebug`, TensorBoard's own name of our tab, in the address of TensorBoard. */

import { effect } from "@preact/signals";
import { hidden } from "../wire/live";
import { decodeState, encodeState, OWNER, type LinkState } from "../lib/link-state";
import * as state from "./state";

/** Takes over what the link says and keeps the link up to date. */
export function followLink(): void {
  const place = addressed();
  const read = (): void => {
    const wanted = decodeState(place.location.hash);
    if (wanted) apply(wanted);
  };
  read();
  place.addEventListener("hashchange", read);
  let timer = 0;
  effect(() => {
    const hash = encodeState(present());
    // While another tab of TensorBoard is shown the address belongs to that one.
    if (hidden.value) return;
    clearTimeout(timer);
    timer = window.setTimeout(() => write(place, hash), 150);
  });
}

/** The window whose address people copy. */
function addressed(): Window {
  try {
    // Reading a property of a foreign window throws.
    if (window.parent !== window && typeof window.parent.location.hash === "string") return window.parent;
  } catch {
    // Somebody else's page around us: our own address has to do.
  }
  return window;
}

function write(place: Window, hash: string): void {
  const { hash: now, pathname, search } = place.location;
  const foreign = place !== window && now !== "" && !now.startsWith(`#${OWNER}`);
  if (foreign || now === hash || hidden.peek()) return;
  place.history.replaceState(place.history.state, "", pathname + search + hash);
}

function present(): LinkState {
  return {
    page: state.page.value,
    focus: state.focus.value,
    chosen: state.chosenByUser.value ? state.chosen.value : null,
    range: state.range.value,
    axis: state.axis.value,
    smoothing: state.smoothing.value,
    logY: state.logY.value,
    rank: state.rank.value,
    params: state.params.value,
  };
}

function apply(wanted: LinkState): void {
  state.page.value = wanted.page;
  if (wanted.focus !== null) state.focus.value = wanted.focus;
  if (wanted.chosen !== null) {
    state.chosen.value = wanted.chosen;
    state.chosenByUser.value = true;
  }
  state.range.value = wanted.range;
  state.axis.value = wanted.axis;
  state.smoothing.value = wanted.smoothing;
  state.logY.value = wanted.logY;
  state.rank.value = wanted.rank;
  state.params.value = wanted.params;
}
