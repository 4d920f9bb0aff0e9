/** The SharedWorker: six streams would take all connections that a browser grants TensorBoard, so there is one. */

import { LiveHub, TAB_REPEATS_MILLISECONDS, type TabMessage } from "./wire/live-hub";

const hub = new LiveHub();

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  port.addEventListener("message", (message) => hub.hear(port, message.data as TabMessage));
  port.start();
});
setInterval(() => hub.sweep(), TAB_REPEATS_MILLISECONDS);
