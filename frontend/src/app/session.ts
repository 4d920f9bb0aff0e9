/** Brings the list of runs and the server's news into the state. */

import { batch } from "@preact/signals";
import { clockLead, get } from "../wire/http";
import { parseRunList, parseRunNews } from "../wire/json";
import { connection, hidden, listen, tellRunChange } from "../wire/live";
import type { RunList } from "../wire/types";
import { firstChoice, type Choice } from "../lib/first-choice";
import * as state from "./state";

let known: { readonly epoch: string; readonly version: number } | null = null;
let loading: Promise<void> | null = null;
let again = false;

export function startSession(): void {
  void refreshList();
  listen((name, data) => {
    if (name === "run") takeNews(data);
    else void refreshList();
  });
  // After a time in the dark there may have been news that nobody told us.
  connection.subscribe((now) => now === "open" && void refreshList());
  hidden.subscribe((now) => !now && known && void refreshList());
}

/** Fetches the list, once at a time; what asks meanwhile gets one more turn. */
export async function refreshList(): Promise<void> {
  again = true;
  loading ??= (async () => {
    while (again) {
      again = false;
      await fetchList();
    }
    loading = null;
  })();
  await loading;
}

async function fetchList(): Promise<void> {
  try {
    const response = await get("runs");
    state.clockLead.value = clockLead(response);
    takeList(parseRunList((await response.json()) as Record<string, unknown>));
    state.listError.value = null;
  } catch (error) {
    state.listError.value = error instanceof Error ? error.message : String(error);
  }
}

function takeList(list: RunList): void {
  const before = new Map((state.runs.peek() ?? []).map((run) => [run.name, run.version]));
  // Another epoch is another server: its version numbers start anew and tell nothing.
  const restarted = known !== null && known.epoch !== list.epoch;
  known = { epoch: list.epoch, version: list.version };
  batch(() => {
    state.runs.value = list.runs;
    state.logdir.value = list.logdir;
    state.complaints.value = list.complaints;
    state.listComplete.value = list.complete;
    takeChoice(firstChoice(list.runs, present()));
  });
  for (const run of list.runs) {
    if (restarted || (before.has(run.name) && before.get(run.name) !== run.version)) tellRunChange(run.name);
  }
}

function present(): Choice {
  return { chosen: state.chosen.peek(), focus: state.focus.peek(), byUser: state.chosenByUser.peek() };
}

function takeChoice(choice: Choice): void {
  state.chosen.value = choice.chosen;
  state.focus.value = choice.focus;
}

function takeNews(data: unknown): void {
  const news = parseRunNews(data);
  if (!news) return;
  const list = state.runs.peek();
  const index = list?.findIndex((run) => run.name === news.name) ?? -1;
  const row = list?.[index];
  if (!list || !row) return void refreshList();
  if (row.version !== null && news.version !== null && news.version < row.version) return;
  state.runs.value = list.with(index, news);
  if (row.version !== news.version) tellRunChange(news.name);
}
