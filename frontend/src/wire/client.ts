/** Hooks that bring the server's data into components and keep it fresh. */

import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { paused } from "../app/state";
import { askColumns } from "./batch";
import { getJson } from "./http";
import { parseGraph, parseRunDetails } from "./json";
import { hidden, onRunChange } from "./live";
import type { Answer, GraphData, Query, RunDetails } from "./types";

export interface ColumnsState {
  /** One for each query, in their order; of the queries before while new ones are on their way. */
  readonly answers: readonly Answer[] | null;
  readonly error: string | null;
  readonly loading: boolean;
}

const NOTHING: ColumnsState = { answers: null, error: null, loading: true };
const REFRESH_MILLISECONDS = 100;

/**
 * The answers to `queries()`, fetched again when the queries change or one of their runs has new data, at most ten
 * times a second and not while the page is paused or hidden. An empty list asks for nothing.
 */
export function useColumns(queries: () => readonly Query[]): ColumnsState {
  const wanted = queries();
  const key = JSON.stringify(wanted);
  const watch = useMemo(() => new ColumnsWatch(), []);
  useEffect(() => watch.want(wanted), [key]);
  useEffect(() => watch.start(), []);
  return watch.state.value;
}

class ColumnsWatch {
  readonly state: Signal<ColumnsState> = signal(NOTHING);
  private queries: readonly Query[] = [];
  private running: AbortController | null = null;
  private outdated = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private lastAsked = 0;

  start(): () => void {
    const stopListening = onRunChange((name) => {
      if (this.queries.some((query) => query.run === name)) this.refresh();
    });
    const stopPause = paused.subscribe(() => this.outdated && this.refresh());
    const stopHidden = hidden.subscribe(() => this.outdated && this.refresh());
    return () => {
      stopListening();
      stopPause();
      stopHidden();
      this.running?.abort();
      if (this.timer !== null) clearTimeout(this.timer);
    };
  }

  want(queries: readonly Query[]): void {
    this.queries = queries;
    this.running?.abort();
    this.running = null;
    if (queries.length === 0) {
      this.state.value = { answers: [], error: null, loading: false };
      return;
    }
    this.state.value = { ...this.state.peek(), loading: true };
    void this.ask();
  }

  private refresh(): void {
    this.outdated = true;
    if (paused.peek() || hidden.peek() || this.running || this.timer !== null) return;
    const wait = Math.max(0, this.lastAsked + REFRESH_MILLISECONDS - performance.now());
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.ask();
    }, wait);
  }

  private async ask(): Promise<void> {
    const controller = new AbortController();
    this.running = controller;
    this.outdated = false;
    this.lastAsked = performance.now();
    try {
      const answers = await askColumns(this.queries, controller.signal);
      if (controller.signal.aborted) return;
      this.state.value = { answers, error: null, loading: false };
    } catch (error) {
      if (controller.signal.aborted) return;
      const message = error instanceof Error ? error.message : String(error);
      this.state.value = { answers: this.state.peek().answers, error: message, loading: false };
    }
    if (this.running === controller) this.running = null;
    if (this.outdated) this.refresh();
  }
}

/** Everything known of a run; null until it has come. */
export function useRun(name: string | null): RunDetails | null {
  return useFetched(name, "run", (json) => parseRunDetails(json));
}

/** The module graph of a run; null until it has come, or when there is none. */
export function useGraph(name: string | null): GraphData | null {
  return useFetched(name, "graph", (json) => parseGraph(json));
}

function useFetched<Value>(
  name: string | null,
  route: string,
  parse: (json: Readonly<Record<string, unknown>>) => Value,
): Value | null {
  const state = useMemo(() => signal<{ name: string; value: Value } | null>(null), []);
  useEffect(() => {
    if (name === null) return;
    const controller = new AbortController();
    const load = async (): Promise<void> => {
      try {
        const json = await getJson(`${route}?run=${encodeURIComponent(name)}`, controller.signal);
        if (!controller.signal.aborted) state.value = { name, value: parse(json) };
      } catch {
        // The list of runs says what is wrong with a run; until it is readable again the last word stands.
      }
    };
    void load();
    return () => controller.abort();
  }, [name, route]);
  const found = state.value;
  return found !== null && found.name === name ? found.value : null;
}
