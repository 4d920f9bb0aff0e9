/** The trainings that can be paused, the one that is looked at, and what is asked of it. */

import { batch, computed, effect, signal } from "@preact/signals";
import {
  chosenEntry,
  groupOf,
  isPaused,
  joined,
  runName,
  trainingsOf,
  withNews,
  withState,
} from "../lib/debugger-trainings";
import { call, fetchSessions } from "../wire/debugger-client";
import { parseNews, parseState } from "../wire/debugger-json";
import type { DebuggerEntry, DebuggerSessions, StepBy } from "../wire/debugger-types";
import { RequestError } from "../wire/http";
import { clientId } from "./debugger-client";
import { page, params, setParam } from "./state";

/** null: not known yet. */
export const sessions = signal<readonly DebuggerEntry[] | null>(null);
/** Why they cannot be shown, or are old. */
export const sessionsError = signal<string | null>(null);
/** What the training or the hub refused last, as a sentence. */
export const complaint = signal<string | null>(null);
/** What came of a command, where that is not seen anyway. */
export const told = signal<string | null>(null);
/** As it was seen last, also when it has gone. */
export const lastSeen = signal<DebuggerEntry | null>(null);

const wantedKey = computed(() => params.value["debugger.session"] ?? null);
export const entry = computed(() => chosenEntry(sessions.value ?? [], wantedKey.value, lastSeen.value));
export const trainings = computed(() => trainingsOf(sessions.value ?? []));
export const training = computed(
  () => trainings.value.find((each) => entry.value && each.group === groupOf(entry.value)) ?? null,
);
export const anyPaused = computed(() => (sessions.value ?? []).some(isPaused));
const pausedNames = computed(() =>
  [...new Set((sessions.value ?? []).filter(isPaused).map(runName))].sort().join("\n"),
);
/** The runs of paused trainings; the same set until another one is paused or goes on. */
export const pausedRuns = computed((): ReadonlySet<string> => new Set(pausedNames.value.split("\n").filter(Boolean)));
/** Whether this page has the controls. */
export const isHolder = computed(() => entry.value?.holder?.client === clientId());

export function startDebugger(): void {
  effect(() => {
    const found = entry.value;
    if (found) lastSeen.value = found;
    // What is looked at stays, also when another training is paused meanwhile.
    if (found && page.value === "debugger" && wantedKey.value !== found.key) choose(found.key);
  });
}

/** The paused training that records this run, if there is one. */
export function pausedIn(run: string): DebuggerEntry | undefined {
  return sessions.value?.find((each) => isPaused(each) && runName(each) === run);
}

export function choose(key: string): void {
  complaint.value = null;
  setParam("debugger.session", key);
}

export async function refreshSessions(): Promise<void> {
  try {
    takeSessions(await fetchSessions());
  } catch (error) {
    // A TensorBoard of before the debugger has no such route.
    const isOlder = error instanceof RequestError && error.status === 404;
    if (isOlder) sessions.value = [];
    sessionsError.value = isOlder ? null : sentence(error);
  }
}

export function takeSessions(found: DebuggerSessions): void {
  batch(() => {
    sessions.value = joined(sessions.peek() ?? [], found.sessions);
    sessionsError.value = null;
  });
}

/** An event of the live stream. */
export function hearDebugger(data: unknown): void {
  const news = parseNews(data);
  if (news) sessions.value = withNews(sessions.peek() ?? [], news.key, news.entry);
}

/** Verbs that answer with the new state. */
const STATE_VERBS = new Set(["pause", "continue", "step", "run_to", "detach"]);

/** The answer of the training that is looked at; undefined when it refused, which `complaint` tells. */
export async function steer(verb: string, given: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
  const key = entry.peek()?.key;
  if (key === undefined) return undefined;
  batch(() => (complaint.value = told.value = null));
  try {
    const value = await call(clientId(), key, verb, given);
    if (STATE_VERBS.has(verb)) sessions.value = withState(sessions.peek() ?? [], key, parseState(value));
    return value;
  } catch (error) {
    complaint.value = sentence(error);
    return undefined;
  }
}

export function pauseOrContinue(): void {
  const found = entry.peek();
  if (found) void steer(found.state.status === "paused" ? "continue" : "pause");
}

/** Steps once; true when the training stands again, so that another step may follow. */
export async function step(by: StepBy): Promise<boolean> {
  if ((await steer("step", { by })) === undefined) return false;
  return stands();
}

/** Waits for a step that takes longer than its answer may. */
function stands(): Promise<boolean> {
  return new Promise((resolve) => {
    const stop = effect(() => {
      const found = entry.value;
      if (found && found.state.status === "running" && found.state.is_waiting) return;
      queueMicrotask(() => stop());
      resolve(found?.state.status === "paused");
    });
  });
}

export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
