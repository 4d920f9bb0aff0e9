/** What the page shows, as signals. Views read them while they render and are drawn anew when they change. */

import { computed, signal } from "@preact/signals";
import { categorical } from "../lib/colour";
import type { Axis, PageName, StepRange } from "../lib/link-state";
import type { RunRow } from "../wire/types";

export { PAGES } from "../lib/link-state";
export type { Axis, PageName, StepRange } from "../lib/link-state";
export type Theme = "light" | "dark";

export const page = signal<PageName>("overview");
/** null: the list has not come yet. */
export const runs = signal<readonly RunRow[] | null>(null);
/** Names of the runs that are drawn. */
export const chosen = signal<readonly string[]>([]);
/** Whether `chosen` was set by hand or by a link; until then new live runs join by themselves. */
export const chosenByUser = signal(false);
/** The run that single-run pages show. */
export const focus = signal<string | null>(null);
/** null: all steps, following what comes. */
export const range = signal<StepRange | null>(null);
export const axis = signal<Axis>("step");
/** 0 … 0.99, the weight of the past. */
export const smoothing = signal(0);
export const logY = signal(false);
export const paused = signal(false);
export const theme = signal<Theme>("light");
export const rank = signal(0);
/** Deep-link parameters that belong to a view; see `setParam`. */
export const params = signal<Readonly<Record<string, string>>>({});

/** Sets a view's own deep-link parameter; null takes it away. Prefix it with the page: "layers.kind". */
export function setParam(name: string, value: string | null): void {
  const next = { ...params.peek() };
  if (value === null) delete next[name];
  else next[name] = value;
  params.value = next;
}

// ---- the list of runs ----------------------------------------------------------------------------------

export const logdir = signal("");
/** False while the server still looks for runs. */
export const listComplete = signal(true);
/** By how many seconds the clock here is ahead of the server's. */
export const clockLead = signal(0);
/** What is wrong with the logdir, in sentences. */
export const complaints = signal<readonly string[]>([]);
/** Where trainings elsewhere may send their records; null: nowhere. */
export const collectorAddress = signal<string | null>(null);
/** Why the list cannot be shown, as a sentence. */
export const listError = signal<string | null>(null);
export const search = signal("");
export const SORTS = ["newest", "name", "loss", "steps"] as const;
export const sort = signal<(typeof SORTS)[number]>("newest");
/** On a phone the list is a drawer. */
export const drawerOpen = signal(false);
export const helpOpen = signal(false);

export const chosenRuns = computed(() => {
  const names = new Set(chosen.value);
  return (runs.value ?? []).filter((run) => names.has(run.name));
});
export const focusedRun = computed(() => runs.value?.find((run) => run.name === focus.value) ?? null);

/** Draws a run, or no longer. */
export function toggleChosen(name: string): void {
  chosenByUser.value = true;
  const names = chosen.peek();
  chosen.value = names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
}

/** Puts a run into focus, and draws it. */
export function focusRun(name: string): void {
  focus.value = name;
  if (!chosen.peek().includes(name)) toggleChosen(name);
}

// ---- colours of runs -----------------------------------------------------------------------------------

/** Index into the categorical palette by run, where the user chose one. */
export const colourChoices = signal<Readonly<Record<string, number>>>({});
const appearances = new Map<string, number>();

/** The colour of a run in the present theme. */
export function colourOf(name: string): string {
  const palette = categorical(theme.value);
  return palette[colourIndex(name) % palette.length] ?? "#888888";
}

export function colourIndex(name: string): number {
  const choices = colourChoices.value;
  return (Object.hasOwn(choices, name) ? choices[name] : undefined) ?? appearance(name);
}

/** Runs beyond the palette share colours; dashes tell them apart. Empty: a full line. */
export function dashOf(name: string): readonly number[] {
  const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]] as const;
  const turn = Math.floor(appearance(name) / categorical("light").length);
  return DASHES[turn % DASHES.length] ?? [];
}

/** Colours go to runs in the order in which they are first drawn. */
function appearance(name: string): number {
  const known = appearances.get(name) ?? appearances.size;
  appearances.set(name, known);
  return known;
}
