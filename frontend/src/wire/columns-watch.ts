/** Keeps the answers to some queries fresh: asks again for what has changed, and only for that. */

import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Answer, Query } from "./types";

export interface ColumnsState {
  /** One for each query, in their order; undefined while it is on its way, null while all are. */
  readonly answers: readonly (Answer | undefined)[] | null;
  readonly error: string | null;
  readonly loading: boolean;
}

/** The state of a watch, which may be that of other queries than are wanted by now. */
export interface WatchState extends ColumnsState {
  readonly queries: readonly Query[];
}

/** The world around a watch. */
export interface Surroundings {
  readonly ask: (queries: readonly Query[], signal: AbortSignal) => Promise<Answer[]>;
  /** Whether news have to wait: the page is paused, or nobody sees it. */
  readonly resting: ReadonlySignal<boolean>;
  readonly now: () => number;
}

const FASTEST_MILLISECONDS = 100;
const SLOWEST_MILLISECONDS = 2000;
/** On a slow line half of the time is left for others. */
const REST_PER_REQUEST = 1;
const RETRY_MILLISECONDS = 4000;

export class ColumnsWatch {
  readonly state: Signal<WatchState> = signal({ queries: [], answers: null, error: null, loading: true });
  private queries: readonly Query[] = [];
  private answers = new Map<string, Answer>();
  private outdated = new Set<string>();
  private running: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private restUntil = 0;

  constructor(private readonly around: Surroundings) {}

  /** Other queries from now on; what is known already is not asked for again. */
  want(queries: readonly Query[]): void {
    this.queries = queries;
    const keys = new Set(queries.map(keyOf));
    for (const key of [...this.answers.keys()]) if (!keys.has(key)) this.answers.delete(key);
    this.stop();
    void this.ask();
  }

  /** A run has something new. */
  changed(run: string): void {
    if (!this.queries.some((query) => query.run === run)) return;
    this.outdated.add(run);
    this.schedule();
  }

  /** Asks for what waited while the page rested, and again for what failed. */
  wake(): void {
    if (this.state.peek().error !== null || this.outdated.size > 0) this.schedule();
  }

  stop(): void {
    this.running?.abort();
    this.running = null;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private schedule(wait = 0): void {
    if (this.running || this.timer !== null || this.around.resting.peek()) return;
    const rest = Math.max(wait, this.restUntil - this.around.now(), 0);
    this.timer = setTimeout(() => {
      this.timer = null;
      if (!this.around.resting.peek()) void this.ask();
    }, rest);
  }

  private async ask(): Promise<void> {
    const wanted = this.queries.filter((query) => !this.answers.has(keyOf(query)) || this.outdated.has(query.run));
    this.outdated.clear();
    if (wanted.length === 0) return this.show(null);
    if (this.answers.size < this.queries.length) this.state.value = { ...this.state.peek(), loading: true };
    const controller = new AbortController();
    this.running = controller;
    const began = this.around.now();
    try {
      const answers = await this.around.ask(wanted, controller.signal);
      if (controller.signal.aborted) return;
      answers.forEach((answer, index) => this.answers.set(keyOf(wanted[index] as Query), answer));
      this.show(null);
    } catch (error) {
      if (controller.signal.aborted) return;
      for (const query of wanted) this.outdated.add(query.run);
      this.show(error instanceof Error ? error.message : String(error));
    }
    this.running = null;
    const took = this.around.now() - began;
    const rest = Math.min(Math.max(took * REST_PER_REQUEST, FASTEST_MILLISECONDS), SLOWEST_MILLISECONDS);
    this.restUntil = this.around.now() + rest;
    if (this.outdated.size > 0) this.schedule(this.state.peek().error === null ? 0 : RETRY_MILLISECONDS);
  }

  private show(error: string | null): void {
    const answers = this.queries.map((query) => this.answers.get(keyOf(query)));
    const complete = answers.every((answer) => answer !== undefined);
    const known = complete ? { queries: this.queries, answers } : this.state.peek();
    this.state.value = { queries: known.queries, answers: known.answers, error, loading: false };
  }
}

/**
 * What is known of the wanted queries: their answers, or else those to the same question about other steps, so that a
 * picture stays while one zooms. Never the answer to another question: it would be shown under a wrong name.
 */
export function answersTo(wanted: readonly Query[], state: WatchState): ColumnsState {
  if (JSON.stringify(wanted) === JSON.stringify(state.queries)) return state;
  const known = new Map(state.queries.map((query, place) => [keyOf(query), state.answers?.[place]]));
  const answers = wanted.map((query, place) => {
    const before = state.queries[place];
    const fitting = before && questionOf(before) === questionOf(query) ? state.answers?.[place] : undefined;
    return known.get(keyOf(query)) ?? fitting;
  });
  const none = wanted.length > 0 && answers.every((answer) => answer === undefined);
  return { answers: none ? null : answers, error: state.error, loading: true };
}

/** A query without its steps and how finely they are told. */
function questionOf(query: Query): string {
  const anywhere = { first: null, last: null, points: null, columns: null };
  return JSON.stringify({ ...query, ...anywhere });
}

function keyOf(query: Query): string {
  return JSON.stringify(query);
}
