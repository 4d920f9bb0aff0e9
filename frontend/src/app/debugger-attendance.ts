/**
 * Attending: what tells the hub that somebody looks at a training, and keeps a paused one paused.
 *
 * A page that is closed says nothing more, and the training goes on when its lease is over. A page that is only
 * out of sight, because another tab is shown, attends for some minutes more: looking something up does not lose
 * the pause, and a forgotten tab does not hold a training for ever.
 */

import { computed, effect, signal } from "@preact/signals";
import { groupOf, isPaused } from "../lib/debugger-trainings";
import { needsToken } from "../wire/control";
import { attend } from "../wire/debugger-client";
import type { DebuggerEntry } from "../wire/debugger-types";
import { hidden } from "../wire/live";
import { clientId, label, shownLabel } from "./debugger-client";
import { entry, sentence, sessions, sessionsError, takeSessions } from "./debugger";
import { page } from "./state";

const EVERY_MILLISECONDS = 3000;
export const HOLD_MINUTES = 5;

/** Groups that were let go of by hand, until somebody attends again by hand. */
export const detached = signal<ReadonlySet<string>>(new Set());
/** When this page let go because it was out of sight for so long, in milliseconds. */
export const letGoAt = signal<number | null>(null);
/** Whether the page of the debugger has been open: before, nothing of it concerns a training. */
const opened = signal(false);
const attended = signal<ReadonlySet<string>>(new Set());
let hiddenSince: number | null = null;
let running: Promise<void> | null = null;
let again = false;
let take: string | null = null;
let release: string | null = null;

const wanted = computed((): readonly string[] => {
  if (!opened.value || needsToken.value) return [];
  return (sessions.value ?? []).filter(isWanted).map((each) => each.key);
});

/** The training that is looked at, and those that this page holds in a pause. */
function isWanted(each: DebuggerEntry): boolean {
  if (each.state.status === "over" || detached.value.has(groupOf(each))) return false;
  const isShown = entry.value !== null && groupOf(entry.value) === groupOf(each);
  return isShown || (isPaused(each) && each.holder?.client === clientId());
}

export function startAttendance(): void {
  effect(() => {
    if (page.value === "debugger") opened.value = true;
  });
  effect(() => {
    // Whatever is new is attended at once; verbs are refused before.
    if (wanted.value.some((key) => !attended.peek().has(key))) void attendNow();
  });
  // The others see the new name at once.
  label.subscribe(() => void attendNow());
  hidden.subscribe((now) => {
    hiddenSince = now ? (hiddenSince ?? Date.now()) : null;
    if (!now) void attendNow();
  });
  setInterval(() => void attendNow(), EVERY_MILLISECONDS);
}

export async function takeControls(key: string): Promise<void> {
  take = key;
  await attendNow();
}

/** Lets go: the training runs on as if nobody had ever looked. */
export async function letGo(key: string): Promise<void> {
  release = key;
  setDetached(key, true);
  await attendNow();
}

export function attendAgain(key: string): void {
  setDetached(key, false);
}

function setDetached(key: string, isDetached: boolean): void {
  const found = sessions.peek()?.find((each) => each.key === key);
  if (!found) return;
  const groups = new Set(detached.peek());
  if (isDetached) groups.add(groupOf(found));
  else groups.delete(groupOf(found));
  detached.value = groups;
}

/** Resolves when the hub knows that this page attends the session. */
export async function attending(key: string): Promise<void> {
  if (!attended.peek().has(key)) await attendNow();
}

async function attendNow(): Promise<void> {
  again = true;
  running ??= (async () => {
    while (again) {
      again = false;
      await attendOnce();
    }
    running = null;
  })();
  await running;
}

async function attendOnce(): Promise<void> {
  const isForgotten = hiddenSince !== null && Date.now() - hiddenSince > HOLD_MINUTES * 60_000;
  const keys = isForgotten ? [] : wanted.peek();
  if (keys.length === 0 && attended.peek().size === 0 && take === null && release === null) return;
  if (isForgotten) letGoAt.value = Date.now();
  const [taking, releasing] = [take, release];
  [take, release] = [null, null];
  try {
    takeSessions(
      await attend({ client: clientId(), label: shownLabel(), sessions: keys, take: taking, release: releasing }),
    );
    attended.value = new Set(keys);
  } catch (error) {
    attended.value = new Set();
    sessionsError.value = sentence(error);
  }
}
