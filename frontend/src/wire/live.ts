/** What the server pushes, whoever holds the stream: the worker that all tabs share, or this page itself. */

import { signal } from "@preact/signals";
import { LiveHub, TAB_REPEATS_MILLISECONDS, type Tab, type TabMessage } from "./live-hub";
import type { Connection, LiveMessage } from "./live-stream";

/** Whether nobody can see this page now: another tab of the browser, or of TensorBoard. */
export const hidden = signal(false);
export const connection = signal<Connection>("connecting");

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

/** Starts listening; `hear` gets each event of the stream. */
export function listen(hear: (name: string, data: unknown) => void): void {
  const receive = (message: LiveMessage): void => {
    if (message.type === "connection") connection.value = message.connection;
    else hear(message.name, message.data);
  };
  let send = connect(receive, () => (send = holdMyself(receive)));
  const url = new URL("live", document.baseURI).href;
  const report = (): void => send({ visible: !hidden.peek(), url });
  hidden.subscribe(report);
  setInterval(report, TAB_REPEATS_MILLISECONDS);
  window.addEventListener("pagehide", () => send({ visible: false, url }));
  watchVisibility();
}

function connect(receive: (message: LiveMessage) => void, failed: () => void): (message: TabMessage) => void {
  try {
    const worker = new SharedWorker(new URL("../live-worker.ts", import.meta.url), {
      type: "module",
      name: "netdebug",
    });
    // A worker that cannot start says so only here.
    worker.addEventListener("error", failed, { once: true });
    worker.port.addEventListener("message", (event) => receive(event.data as LiveMessage));
    worker.port.start();
    return (message) => worker.port.postMessage(message);
  } catch {
    return holdMyself(receive);
  }
}

/** Browsers without shared workers: each tab has its own stream. */
function holdMyself(receive: (message: LiveMessage) => void): (message: TabMessage) => void {
  const hub = new LiveHub();
  const tab: Tab = { postMessage: receive };
  return (message) => hub.hear(tab, message);
}

/** TensorBoard hides its tabs by a height of zero, which `visibilityState` does not know of. */
function watchVisibility(): void {
  let inSight = true;
  const settle = (): void => {
    hidden.value = document.visibilityState === "hidden" || !inSight || window.innerHeight === 0;
  };
  document.addEventListener("visibilitychange", settle);
  window.addEventListener("resize", settle);
  new IntersectionObserver((entries) => {
    inSight = entries[entries.length - 1]?.isIntersecting ?? true;
    settle();
  }).observe(document.body);
  settle();
}
