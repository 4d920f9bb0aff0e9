import { describe, expect, it } from "vitest";
import { parseSessions } from "../wire/debugger-json";
import type { DebuggerEntry } from "../wire/debugger-types";
import { chosenEntry, joined, runName, trainingsOf, withNews, withState } from "./debugger-trainings";

interface Wanted {
  readonly key: string;
  readonly group?: string;
  readonly rank?: number;
  readonly version?: number;
  readonly status?: string;
  readonly pid?: number;
}

function entry({ key, group = key, rank = 0, version = 1, status = "running", pid = 1 }: Wanted): DebuggerEntry {
  const session = { group, rank, pid, host: "lab", run: ["a"] };
  const [found] = parseSessions({ sessions: [{ key, session, state: { version, status } }] }).sessions;
  if (!found) throw new Error("an entry has a key");
  return found;
}

it("the run of a training is called as in the list, also the logdir itself", () => {
  const found = entry({ key: "a" });
  expect(runName(found)).toBe("a");
  expect(runName({ ...found, session: { ...found.session, run: "" } })).toBe(".");
});

it("ranks of one group are one training, by rank", () => {
  const [a, b] = [entry({ key: "a", group: "g" }), entry({ key: "b", group: "g", rank: 1 })];
  const trainings = trainingsOf([b, entry({ key: "c" }), a]);
  expect(trainings.map((each) => each.ranks.map((rank) => rank.key))).toEqual([["a", "b"], ["c"]]);
});

describe("the chosen training", () => {
  const [running, paused] = [entry({ key: "r" }), entry({ key: "p", status: "paused", pid: 2 })];

  it("is the paused one when nobody chose", () => {
    expect(chosenEntry([running, paused], null, null)?.key).toBe("p");
  });

  it("is found again under another key", () => {
    expect(chosenEntry([running, { ...paused, key: "new" }], "p", paused)?.key).toBe("new");
  });

  it("that has gone is not replaced by another one", () => {
    expect(chosenEntry([running], "p", paused)).toBeNull();
  });
});

describe("news", () => {
  const old = entry({ key: "a", version: 5, status: "paused" });

  it("that are older than what is known change nothing but who holds the controls", () => {
    const late = { ...entry({ key: "a", version: 4 }), clients: 3 };
    const [now] = withNews([old], "a", late);
    expect([now?.state.status, now?.clients]).toEqual(["paused", 3]);
    expect(joined([old], [late])[0]?.state.version).toBe(5);
  });

  it("that say nothing new leave all as it is", () => {
    const known = [old];
    expect(withNews(known, "a", entry({ key: "a", version: 5, status: "paused" }))).toBe(known);
  });

  it("of another process under the same key are taken", () => {
    expect(withNews([old], "a", entry({ key: "a", version: 1, pid: 9 }))[0]?.state.version).toBe(1);
  });

  it("of what has gone take it away", () => {
    expect(withNews([old], "a", null)).toEqual([]);
  });

  it("by an answer are taken when they are newer", () => {
    expect(withState([old], "a", { ...old.state, version: 6, step: 9 })[0]?.state.step).toBe(9);
    expect(withState([old], "a", { ...old.state, version: 4, step: 9 })[0]?.state.step).toBe(0);
  });
});
