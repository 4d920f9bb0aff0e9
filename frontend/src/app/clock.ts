import { computed, signal } from "@preact/signals";
import { hidden } from "../wire/live";
import { clockLead } from "./state";

const here = signal(Date.now() / 1000);
setInterval(() => {
  if (!hidden.peek()) here.value = Date.now() / 1000;
}, 1000);

/** Seconds on the server's clock; what reads it is drawn anew each second. */
export const now = computed(() => here.value - clockLead.value);
