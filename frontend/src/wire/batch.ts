/** Collects the queries of all components of a frame into few requests. */

import { decodeColumns } from "./columns";
import { get, RequestError } from "./http";
import type { Answer, Query } from "./types";

/** Servers refuse request lines of 64 KiB, and proxies often shorter ones. */
const LONGEST_TEXT = 7000;
/** The server takes 100. */
const MOST_QUERIES = 80;

interface Order {
  readonly query: Query;
  readonly signal: AbortSignal;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (reason: unknown) => void;
}

let waiting: Order[] = [];

/** The answers to the queries, in their order. Aborting leaves the queries of others that travel along alone. */
export function askColumns(queries: readonly Query[], signal: AbortSignal): Promise<Answer[]> {
  const answers = queries.map(
    (query) =>
      new Promise<Answer>((resolve, reject) => {
        if (waiting.length === 0) setTimeout(flush, 0);
        waiting.push({ query, signal, resolve, reject });
      }),
  );
  return Promise.all(answers);
}

function flush(): void {
  const orders = waiting.filter((order) => !order.signal.aborted);
  waiting = [];
  for (const group of groups(orders)) void send(group);
}

/** As many together as one request carries. */
export function groups<Asked extends { readonly query: Query }>(orders: readonly Asked[]): Asked[][] {
  const found: Asked[][] = [];
  let room = 0;
  for (const order of orders) {
    const size = encodeURIComponent(JSON.stringify(order.query)).length;
    const full = (found[found.length - 1]?.length ?? MOST_QUERIES) >= MOST_QUERIES;
    if (room < size || full) {
      found.push([]);
      room = LONGEST_TEXT;
    }
    found[found.length - 1]?.push(order);
    room -= size;
  }
  return found;
}

async function send(orders: readonly Order[]): Promise<void> {
  const abort = new AbortController();
  const askers = [...new Set(orders.map((order) => order.signal))];
  const giveUp = (): void => {
    if (askers.every((asker) => asker.aborted)) abort.abort();
  };
  for (const asker of askers) asker.addEventListener("abort", giveUp);
  try {
    const queries = orders.map((order) => order.query);
    const response = await get(`columns?q=${encodeURIComponent(JSON.stringify(queries))}`, abort.signal);
    const answers = decodeColumns(await response.arrayBuffer());
    orders.forEach((order, index) => {
      const answer = answers[index];
      if (answer) order.resolve(answer);
      else order.reject(new Error("The server answered fewer queries than were sent."));
    });
  } catch (error) {
    // Refused is refused: that one keeps its neighbours in a chart from nothing. All else may work later.
    const refused = error instanceof RequestError && error.status >= 400 && error.status < 500;
    for (const order of orders) {
      if (refused) order.resolve({ what: "failed", error: error.message });
      else order.reject(error);
    }
  } finally {
    for (const asker of askers) asker.removeEventListener("abort", giveUp);
  }
}
