/** Brings the list of runs and the server's news into the state. */

import { batch } from "@preact/signals";
import { clockLead, get } from "../wire/http";
import { parseRunList, parseRunNews } from "../wire/json";
import { connection, hidden, listen, tellRunChange } from "../wire/live";
import type { RunList, RunRow } from "../wire/types";
import { firstChoice, type Choice } from "../lib/first-choice";
import { hearDebugger, refreshSessions } from "./debugger";
import * as state from "./state";

let known: { readonly epoch: string; readonly version: number } | null = null;
let loading: Promise<void> | null = null;
let again = false;

export function startSession(): void {
  refreshAll();
  listen((name, data) => {
    if (name === "run") hearNews(data);
    else if (name === "debugger") hearDebugger(data);
    else if (name === "hello") refreshAll();
    else refreshSoon();
  });
  // After a time in the dark there may have been news that nobody told us.
  connection.subscribe((now) => now === "open" && refreshAll());
  hidden.subscribe((now) => !now && known && refreshAll());
  state.paused.subscribe((now) => !now && known && void refreshList());
}

function refreshAll(): void {
  void refreshList();
  void refreshSessions();
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

const SOON_MILLISECONDS = 1000;
let soon: ReturnType<typeof setTimeout> | null = null;

/** For news that come by themselves, of which there may be many. */
function refreshSoon(): void {
  if (soon !== null) return;
  soon = setTimeout(() => {
    soon = null;
    void refreshList();
  }, SOON_MILLISECONDS);
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
  const before = new Map((state.runs.peek() ?? []).map((run) => [run.name, run]));
  // Another epoch is another server: its version numbers start anew and tell nothing.
  const restarted = known !== null && known.epoch !== list.epoch;
  const shown = state.paused.peek() ? state.runs.peek() : null;
  // A paused page compares with what it shows as soon as it continues.
  if (shown === null) known = { epoch: list.epoch, version: list.version };
  batch(() => {
    state.runs.value = shown === null ? list.runs : [...shown, ...list.runs.filter((run) => !before.has(run.name))];
    state.logdir.value = list.logdir;
    state.complaints.value = list.complaints;
    state.collectorAddress.value = list.collector.address;
    state.listComplete.value = list.complete;
    if (shown === null) takeChoice(firstChoice(list.runs, present()));
  });
  if (shown !== null) return;
  for (const run of list.runs) {
    const earlier = before.get(run.name);
    if (restarted || (earlier && (earlier.version !== run.version || earlier.verdict !== run.verdict))) {
      tellRunChange(run.name);
    }
  }
}

function present(): Choice {
  return { chosen: state.chosen.peek(), focus: state.focus.peek(), byUser: state.chosenByUser.peek() };
}

function takeChoice(choice: Choice): void {
  state.chosen.value = choice.chosen;
  state.focus.value = choice.focus;
}

/** Many runs train at once: the list of them is drawn anew ten times a second at most. Charts need not wait for it. */
const NEWS_MILLISECONDS = 100;
const news = new Map<string, RunRow>();
let takenAt = 0;

function hearNews(data: unknown): void {
  const row = parseRunNews(data);
  if (!row) return;
  const before = news.get(row.name) ?? state.runs.peek()?.find((run) => run.name === row.name);
  if (news.size === 0) setTimeout(takeNews, Math.max(0, takenAt + NEWS_MILLISECONDS - performance.now()));
  news.set(row.name, row);
  if (!state.paused.peek() && before && hasNews(before, row)) tellRunChange(row.name);
}

/** A run may have been judged since, and its files be as before. */
function hasNews(before: RunRow, row: RunRow): boolean {
  const [old, version] = [before.version ?? 0, row.version ?? 0];
  return old < version || (old === version && before.verdict !== row.verdict);
}

function takeNews(): void {
  takenAt = performance.now();
  const list = state.runs.peek() ?? [];
  const there = new Map(list.map((row) => [row.name, row.version]));
  const isNew = (row: RunRow): boolean => (there.get(row.name) ?? -1) <= (row.version ?? 0);
  if ([...news.keys()].some((name) => !there.has(name))) refreshSoon();
  // What a paused page misses, it gets with the list when it continues.
  if (state.paused.peek()) return news.clear();
  const fresh = new Map([...news].filter(([name, row]) => there.has(name) && isNew(row)));
  news.clear();
  if (fresh.size > 0) state.runs.value = list.map((row) => fresh.get(row.name) ?? row);
}
