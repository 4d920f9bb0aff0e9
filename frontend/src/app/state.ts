/** What the page shows, as signals. Views read them while they render and are drawn anew when they change. */

import { computed, signal } from "@preact/signals";
import { categorical } from "../lib/colour";
import type { RunRow } from "../wire/types";

export const PAGES = ["overview", "layers", "histograms", "data", "resources", "graph"] as const;
export type PageName = (typeof PAGES)[number];
export type Axis = "step" | "time" | "samples";
export type Theme = "light" | "dark";
export interface StepRange {
  readonly first: number;
  readonly last: number;
}

export const page = signal<PageName>("overview");
/** null: the list has not come yet. */
export const runs = signal<readonly RunRow[] | null>(null);
/** Names of the runs that are drawn. */
export const chosen = signal<readonly string[]>([]);
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

export const chosenRuns = computed(() => {
  const names = new Set(chosen.value);
  return (runs.value ?? []).filter((run) => names.has(run.name));
});
export const focusedRun = computed(() => runs.value?.find((run) => run.name === focus.value) ?? null);

/** Index into the categorical palette, by run: what the user chose, else by first appearance. */
export const colourChoices = signal<Readonly<Record<string, number>>>({});
const appearances = new Map<string, number>();

/** The colour of a run in the present theme. */
export function colourOf(name: string): string {
  const palette = categorical(theme.value);
  const index = colourChoices.value[name] ?? appearance(name);
  return palette[index % palette.length] ?? "#888888";
}

function appearance(name: string): number {
  const known = appearances.get(name) ?? appearances.size;
  appearances.set(name, known);
  return known;
}
