import { signal } from "@preact/signals";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answersTo, ColumnsWatch, type WatchState } from "./columns-watch";
import type { Answer, Query } from "./types";

const query = (run: string, points = 100): Query => ({ what: "scalars", run, names: ["loss"], points });
const names = (watch: ColumnsWatch): unknown =>
  watch.state.peek().answers?.map((each) => each?.what === "failed" && each.error);

interface Asked {
  readonly runs: readonly string[];
  readonly signal: AbortSignal;
  readonly reply: () => void;
  readonly fail: () => void;
}

function make(): { watch: ColumnsWatch; asked: Asked[]; resting: { value: boolean } } {
  const asked: Asked[] = [];
  const resting = signal(false);
  const ask = (queries: readonly Query[], abort: AbortSignal): Promise<Answer[]> =>
    new Promise((resolve, reject) => {
      const turn = asked.length;
      const answers = queries.map((each): Answer => ({ what: "failed", error: `${each.run} ${turn}` }));
      asked.push({
        runs: queries.map((each) => each.run),
        signal: abort,
        reply: () => resolve(answers),
        fail: () => reject(new Error("gone")),
      });
    });
  return { watch: new ColumnsWatch({ ask, resting, now: () => Date.now() }), asked, resting };
}

/** Lets promises run, and the clock move. */
const pass = (milliseconds: number): Promise<unknown> => vi.advanceTimersByTimeAsync(milliseconds);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a watch over queries", () => {
  it("asks again only for the run that has changed", async () => {
    const { watch, asked } = make();
    watch.want([query("a"), query("b")]);
    asked[0]?.reply();
    await pass(0);
    watch.changed("b");
    watch.changed("elsewhere");
    await pass(1000);
    expect(asked.map((each) => each.runs)).toEqual([["a", "b"], ["b"]]);
    asked[1]?.reply();
    await pass(0);
    expect(names(watch)).toEqual(["a 0", "b 1"]);
  });

  it("asks at most ten times a second, and never twice at once", async () => {
    const { watch, asked } = make();
    watch.want([query("a")]);
    asked[0]?.reply();
    await pass(0);
    for (let turn = 0; turn < 100; turn++) {
      watch.changed("a");
      await pass(10);
      asked[asked.length - 1]?.reply();
    }
    expect(asked.length).toBeGreaterThan(5);
    expect(asked.length).toBeLessThanOrEqual(11);
    const before = asked.length;
    watch.changed("a");
    await pass(200);
    watch.changed("a");
    await pass(1000);
    expect(asked.length).toBe(before + 1);
  });

  it("rests on a slow line", async () => {
    const { watch, asked } = make();
    watch.want([query("a")]);
    await pass(400);
    asked[0]?.reply();
    await pass(0);
    watch.changed("a");
    await pass(300);
    expect(asked.length).toBe(1);
    await pass(200);
    expect(asked.length).toBe(2);
  });

  it("keeps the old picture while new queries load, and drops outdated ones", async () => {
    const { watch, asked } = make();
    watch.want([query("a")]);
    asked[0]?.reply();
    await pass(0);
    watch.want([query("a", 200)]);
    watch.want([query("a", 300)]);
    expect(asked[1]?.signal.aborted).toBe(true);
    expect(names(watch)).toEqual(["a 0"]);
    expect(watch.state.peek().loading).toBe(true);
    asked[1]?.reply();
    asked[2]?.reply();
    await pass(0);
    expect(names(watch)).toEqual(["a 2"]);
  });

  it("asks only for what is new when a query joins", async () => {
    const { watch, asked } = make();
    watch.want([query("a")]);
    asked[0]?.reply();
    await pass(0);
    watch.want([query("b"), query("a")]);
    asked[1]?.reply();
    await pass(0);
    expect(asked[1]?.runs).toEqual(["b"]);
    expect(names(watch)).toEqual(["b 1", "a 0"]);
  });

  it("waits while the page rests, and catches up in one go", async () => {
    const { watch, asked, resting } = make();
    watch.want([query("a")]);
    asked[0]?.reply();
    await pass(0);
    resting.value = true;
    watch.changed("a");
    watch.changed("a");
    await pass(5000);
    expect(asked.length).toBe(1);
    resting.value = false;
    watch.wake();
    await pass(1000);
    expect(asked.length).toBe(2);
  });

  it("says what went wrong, keeps the picture and tries again by itself", async () => {
    const { watch, asked } = make();
    watch.want([query("a")]);
    asked[0]?.reply();
    await pass(0);
    watch.changed("a");
    await pass(200);
    asked[1]?.fail();
    await pass(0);
    expect([names(watch), watch.state.peek().error]).toEqual([["a 0"], "gone"]);
    await pass(5000);
    asked[2]?.reply();
    await pass(0);
    expect([names(watch), watch.state.peek().error]).toEqual([["a 2"], null]);
  });
});

describe("the answers to what is wanted", () => {
  const heat = (statistic: string, more: object = {}): Query => {
    return { what: "heat", run: "a", kind: "weight", statistic, ...more };
  };
  const answer = (error: string): Answer => ({ what: "failed", error });
  const state = (queries: readonly Query[]): WatchState => {
    const answers = queries.map((each, place) => answer(`${each.what} ${place}`));
    return { queries, answers, error: null, loading: false };
  };

  it("are those of the watch while it is asked the same", () => {
    const before = state([heat("rms"), heat("zeros")]);
    expect(answersTo([heat("rms"), heat("zeros")], before)).toBe(before);
  });

  it("stay while only other steps are asked for", () => {
    const before = state([heat("rms", { columns: 100 }), heat("zeros")]);
    const after = answersTo([heat("rms", { columns: 50, first: 3, last: 9 }), heat("zeros")], before);
    expect(after).toEqual({ answers: before.answers, error: null, loading: true });
  });

  it("are never those to another question", () => {
    const before = state([heat("rms"), heat("zeros")]);
    const after = answersTo([heat("mean"), heat("zeros")], before);
    expect(after.answers).toEqual([undefined, answer("heat 1")]);
    expect(answersTo([heat("mean"), { what: "processes", run: "a" }], before).answers).toBe(null);
  });

  it("go along with a question that changes its place", () => {
    const before = state([query("a"), query("b"), query("c")]);
    const after = answersTo([query("b"), query("c")], before);
    expect(after.answers).toEqual([answer("scalars 1"), answer("scalars 2")]);
  });

  it("are nothing at all when nothing is asked", () => {
    expect(answersTo([], state([query("a")])).answers).toEqual([]);
  });
});
