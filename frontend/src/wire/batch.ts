/** Collects the queries of all components of a frame into few requests. */

import { decodeColumns } from "./columns";
import { get } from "./http";
import type { Answer, Query } from "./types";

// Servers refuse request lines of 64 KiB; proxies often at 16.
const LONGEST_URL = 12000;

interface Order {
  readonly queries: readonly Query[];
  readonly signal: AbortSignal;
  readonly resolve: (answers: Answer[]) => void;
  readonly reject: (reason: unknown) => void;
}

let waiting: Order[] = [];

/** The answers to the queries, in their order. Aborting one order leaves those that travel with it alone. */
export function askColumns(queries: readonly Query[], signal: AbortSignal): Promise<Answer[]> {
  return new Promise((resolve, reject) => {
    if (waiting.length === 0) setTimeout(flush, 0);
    waiting.push({ queries, signal, resolve, reject });
  });
}

function flush(): void {
  const orders = waiting.filter((order) => !order.signal.aborted);
  waiting = [];
  for (const group of groups(orders)) void send(group);
}

/** Splits orders so that no URL gets too long; one order is never split. */
export function groups<Asked extends { readonly queries: readonly Query[] }>(orders: readonly Asked[]): Asked[][] {
  const found: Asked[][] = [];
  let room = 0;
  for (const order of orders) {
    const size = encodeURIComponent(JSON.stringify(order.queries)).length;
    if (room < size || found.length === 0) {
      found.push([]);
      room = LONGEST_URL;
    }
    found[found.length - 1]?.push(order);
    room -= size;
  }
  return found;
}

async function send(orders: readonly Order[]): Promise<void> {
  const abort = new AbortController();
  const giveUp = (): void => {
    if (orders.every((order) => order.signal.aborted)) abort.abort();
  };
  for (const order of orders) order.signal.addEventListener("abort", giveUp);
  try {
    const queries = orders.flatMap((order) => order.queries);
    const response = await get(`columns?q=${encodeURIComponent(JSON.stringify(queries))}`, abort.signal);
    const answers = decodeColumns(await response.arrayBuffer());
    let at = 0;
    for (const order of orders) order.resolve(answers.slice(at, (at += order.queries.length)));
  } catch (error) {
    for (const order of orders) order.reject(error);
  }
}
