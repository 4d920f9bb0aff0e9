/** Who this page is to the debugger: an id that survives a reload, and a name for people. */

import { signal } from "@preact/signals";
import { remember } from "./remembered";

const PLACE = "netdebug.debugger.client";
const MOST_LETTERS = 40;

let id = stored() ?? drawn();
/** How others call this page when it holds the controls. */
export const label = signal("");

export function clientId(): string {
  return id;
}

export function shownLabel(): string {
  return label.value.trim().slice(0, MOST_LETTERS) || `Tab ${id.slice(0, 4)}`;
}

export function startClient(): void {
  remember("debugger.label", label, (found): found is string => typeof found === "string");
  store();
  try {
    settleTwins();
  } catch {
    // No channel between the tabs here; then twins see that they share the controls by what they do.
  }
}

function drawn(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function stored(): string | null {
  try {
    const found = sessionStorage.getItem(PLACE);
    return found && /^[A-Za-z0-9-]{16,64}$/.test(found) ? found : null;
  } catch {
    return null; // Other hosts of TensorBoard may forbid the store.
  }
}

function store(): void {
  try {
    sessionStorage.setItem(PLACE, id);
  } catch {
    // Then a reload is a new client, which has to take the controls over.
  }
}

/** A tab that was duplicated has the id of its twin: the newer one draws another. */
function settleTwins(): void {
  const channel = new BroadcastChannel(PLACE);
  channel.addEventListener("message", ({ data }: MessageEvent<{ asks?: string; taken?: string }>) => {
    if (data.asks === id) channel.postMessage({ taken: id });
    if (data.taken !== id || !isAsking) return;
    isAsking = false;
    id = drawn();
    store();
  });
  let isAsking = true;
  channel.postMessage({ asks: id });
  setTimeout(() => (isAsking = false), 1000);
}
