/** The sessions that there are, as trainings with their ranks, and how news join what is known. */

import type { DebuggerEntry, DebuggerState } from "../wire/debugger-types";

/** All ranks of one training; they pause and go on together. */
export interface Training {
  readonly group: string;
  /** By rank. */
  readonly ranks: readonly DebuggerEntry[];
}

/** In the order in which they came. */
export function trainingsOf(entries: readonly DebuggerEntry[]): Training[] {
  const groups = new Map<string, DebuggerEntry[]>();
  for (const entry of entries) groups.set(groupOf(entry), [...(groups.get(groupOf(entry)) ?? []), entry]);
  return [...groups].map(([group, ranks]) => ({
    group,
    ranks: ranks.sort((a, b) => a.session.rank - b.session.rank),
  }));
}

/** A training that says nothing of a group is one by itself. */
export function groupOf({ key, session }: DebuggerEntry): string {
  return session.group || key;
}

export function isPaused({ state, is_connected }: DebuggerEntry): boolean {
  return state.status === "paused" && is_connected;
}

/** As in the list of runs; the logdir itself can be a run, too. */
export function runName({ session }: DebuggerEntry): string {
  return session.run || ".";
}

/** Of the one that was chosen, or else the one that most likely is meant: what is paused comes first. */
export function chosenEntry(
  entries: readonly DebuggerEntry[],
  key: string | null,
  before: DebuggerEntry | null,
): DebuggerEntry | null {
  const chosen = entries.find((each) => each.key === key);
  if (chosen) return chosen;
  // After a restart of TensorBoard it may have another key.
  const same = before?.key === key && entries.find((each) => isSameTraining(each, before));
  if (same) return same;
  return key === null ? (entries.find(isPaused) ?? entries[0] ?? null) : null;
}

function isSameTraining(a: DebuggerEntry, b: DebuggerEntry): boolean {
  const identity = ({ session }: DebuggerEntry): string =>
    JSON.stringify([session.group, session.host, session.pid, session.rank]);
  return identity(a) === identity(b);
}

/** What came over several ways may come in another order: the newest state of each stays. */
export function joined(known: readonly DebuggerEntry[], all: readonly DebuggerEntry[]): DebuggerEntry[] {
  const before = new Map(known.map((each) => [each.key, each]));
  return all.map((each) => withNewest(before.get(each.key), each));
}

/** With one entry more, or newer; null: without that one. */
export function withNews(
  known: readonly DebuggerEntry[],
  key: string,
  entry: DebuggerEntry | null,
): readonly DebuggerEntry[] {
  if (entry === null) return known.filter((each) => each.key !== key);
  const before = known.find((each) => each.key === key);
  if (!before) return [...known, entry];
  // What an answer has told already draws nothing anew.
  if (isSame(before, entry)) return known;
  return known.map((each) => (each === before ? withNewest(each, entry) : each));
}

function isSame(a: DebuggerEntry, b: DebuggerEntry): boolean {
  return (
    isSameTraining(a, b) &&
    b.state.version <= a.state.version &&
    a.is_connected === b.is_connected &&
    a.clients === b.clients &&
    a.holder?.client === b.holder?.client &&
    a.holder?.label === b.holder?.label
  );
}

export function withState(
  known: readonly DebuggerEntry[],
  key: string,
  state: DebuggerState,
): readonly DebuggerEntry[] {
  return known.map((each) => (each.key === key ? withNewest(each, { ...each, state }) : each));
}

function withNewest(known: DebuggerEntry | undefined, entry: DebuggerEntry): DebuggerEntry {
  if (!known || !isSameTraining(known, entry) || known.state.version < entry.state.version) return entry;
  return { ...entry, state: known.state };
}
