/** Made-up agents: one training was killed, and all of them have processes. */

import { hash } from "./noise";
import type { MadeRun } from "./runs";

type Json = Readonly<Record<string, unknown>>;

const GIB = 2 ** 30;

export function endingOf(run: MadeRun): Json | null {
  if (run.illness !== "slow" || run.ended === null) return null;
  return {
    rank: 0,
    time: run.started + run.ended * run.seconds,
    well: false,
    exit_code: null,
    signal: 9,
    out_of_memory: true,
    sentence: "The process was killed by SIGKILL in the middle of the training.",
  };
}

export function processesOf(run: MadeRun, time: number): Json[] {
  if (run.kind === "summary") return [];
  return [{ rank: 0, time, tree_bytes: 9 * GIB, processes: 5, threads: 41, cpu_share: 3.2, state: "R" }];
}

/** Memory that grows, as it does before there is none left. */
export function processColumns(run: MadeRun, until: number): Record<string, Float64Array> {
  const rows = 300;
  const column = (of: (row: number) => number): Float64Array =>
    Float64Array.from({ length: rows }, (_, row) => of(row));
  const bytes = (row: number): number => (4 + (5 * row) / rows + 0.2 * hash("tree", row)) * GIB;
  return {
    time: column((row) => run.started + ((until - run.started) * row) / rows),
    tree_bytes: column(bytes),
    most_bytes: column((row) => bytes(row) * 1.05),
    cpu_share: column(() => 3.2),
    processes: column(() => 5),
  };
}
