import { describe, expect, it } from "vitest";
import type { Ending, Processes } from "../wire/types";
import { endedWords, endingInShort, endingWords, lateWords } from "./pulse";

const ENDING: Ending = {
  rank: 0,
  time: 5,
  well: false,
  exit_code: null,
  signal: null,
  out_of_memory: false,
  sentence: "",
};
const SEEN: Processes = {
  rank: 0,
  time: 90,
  tree_bytes: 1,
  processes: 1,
  threads: 3,
  cpu_share: 0.98,
  state: "R",
};

describe("how a training ended", () => {
  it("is told by its signal, its exit code, or not at all", () => {
    expect(endingWords({ ...ENDING, signal: 9, out_of_memory: true })).toBe("killed by signal 9, out of memory");
    expect(endingWords({ ...ENDING, exit_code: 1 })).toBe("with exit code 1");
    expect(endingWords(ENDING)).toBe("reason unknown");
    expect(endingWords({ ...ENDING, well: true, exit_code: 0 })).toBe("normally");
  });

  it("fits into a row of the list", () => {
    expect(endingInShort({ ...ENDING, signal: 9, out_of_memory: true })).toBe("out of memory");
    expect(endingInShort({ ...ENDING, signal: 9 })).toBe("killed by signal 9");
    expect(endingInShort({ ...ENDING, exit_code: 1 })).toBe("exit code 1");
    expect(endingInShort(ENDING)).toBe("gone without a trace");
  });

  it("names the rank where there are several", () => {
    expect(endedWords({ ...ENDING, signal: 15 }, 1)).toBe("Ended: killed by signal 15");
    expect(endedWords({ ...ENDING, rank: 3, exit_code: 2 }, 8)).toBe("Rank 3 ended: with exit code 2");
    expect(endedWords({ ...ENDING, well: true }, 1)).toBe("Ended normally");
  });
});

describe("that nothing comes", () => {
  const alive = { since: 100, is_alive: true, ranks: [0] };
  const silent = { since: 100, is_alive: false, ranks: [0] };

  it("is told with what the trainer does meanwhile", () => {
    const words = (changes: Partial<Processes>): string => lateWords(alive, 112.9, 1, [{ ...SEEN, ...changes }]);
    const start = "No data for 12 s; the trainer is alive";
    expect(lateWords(alive, 112.9, 1, [])).toBe(`${start}.`);
    expect(words({})).toBe(`${start}: it keeps 0.98 processors busy.`);
    expect(words({ processes: 5, cpu_share: 0 })).toBe(`${start}: its 5 processes keep no processor busy.`);
    expect(words({ state: "T" })).toBe(`${start}, but it is stopped (by Ctrl-Z or a debugger).`);
    expect(words({ state: "D" })).toBe(`${start} and waits for a disk or a driver.`);
  });

  it("is told of a machine that does not answer", () => {
    expect(lateWords(silent, 220, 1, [SEEN])).toBe(
      "No data for 2 min; its machine is not responding. What it records in the meantime arrives once it is back.",
    );
    expect(lateWords(silent, 100 + 7200, 1, [])).toContain("is not known");
  });

  it("names the ranks, unless it is all of them", () => {
    expect(lateWords({ ...silent, ranks: [1, 3] }, 120, 4, [])).toContain("No data from ranks 1, 3 for 20 s");
    expect(lateWords({ ...alive, ranks: [2] }, 120, 4, [])).toContain("No data from rank 2 for 20 s");
    expect(lateWords({ ...silent, ranks: [0, 1] }, 120, 2, [])).toContain("No data for 20 s");
    const many = Array.from({ length: 40 }, (_, rank) => rank);
    expect(lateWords({ ...silent, ranks: many }, 120, 64, [])).toContain("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 32 more");
  });

  it("never counts backwards when clocks differ", () => {
    expect(lateWords(alive, 50, 1, [])).toContain("for 0 s");
  });
});
