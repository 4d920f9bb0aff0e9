/** What the watchpoints have hit, in the order of execution; brought when the state says that there are more. */

import { effect, signal } from "@preact/signals";
import { entry, sentence } from "../../app/debugger";
import { parseHits } from "../../wire/debugger-json";
import type { Hit } from "../../wire/debugger-types";
import { ask } from "./asked";

export const hits = signal<readonly Hit[]>([]);
export const hitsError = signal<string | null>(null);

const MOST_AT_ONCE = 200;
/** Nobody reads more; the oldest of them say most. */
const MOST = 1000;
let session: string | null = null;
let known = 0;
let running = false;

effect(() => {
  const found = entry.value;
  const total = found?.state.hits ?? 0;
  if ((found?.key ?? null) !== session || total < known) forget(found?.key ?? null);
  if (found?.is_connected && total > known && hits.peek().length < MOST) void bring(found.key, total);
});

function forget(key: string | null): void {
  session = key;
  known = 0;
  hits.value = [];
}

async function bring(key: string, total: number): Promise<void> {
  if (running) return;
  running = true;
  try {
    const since = hits.peek().at(-1)?.number ?? 0;
    const more = parseHits(await ask(key, "hits", { since, most: MOST_AT_ONCE }));
    if (key !== session) return;
    const numbers = new Set(hits.peek().map((hit) => hit.number));
    const fresh = more.filter((hit) => !numbers.has(hit.number));
    hits.value = [...hits.peek(), ...fresh];
    hitsError.value = null;
    // The training may have hit more meanwhile, of which the next state tells.
    known = fresh.length < MOST_AT_ONCE ? total : since + fresh.length;
  } catch (error) {
    hitsError.value = sentence(error);
  } finally {
    running = false;
  }
  const newest = entry.peek();
  if (newest?.key === session && newest.state.hits > known && hitsError.peek() === null && hits.peek().length < MOST) {
    void bring(newest.key, newest.state.hits);
  }
}
