/** In words: how a training ended, and that nothing has come of it for a while. */

import type { Ending, Late, Processes } from "../wire/types";
import { formatAge } from "./elapsed";
import { formatNumber } from "./format";

/** After so long nobody waits for the machine any more. */
const GIVEN_UP_SECONDS = 3600;

/** "killed by signal 9, out of memory"; goes on where "ended" or "ended:" stands. */
export function endingWords(ending: Ending): string {
  if (ending.well) return "normally";
  return ending.out_of_memory ? `${how(ending)}, out of memory` : how(ending);
}

function how({ signal, exit_code: code }: Ending): string {
  if (signal !== null) return `killed by signal ${signal}`;
  return code === null ? "reason unknown" : `with exit code ${code}`;
}

/** The same in two or three words. */
export function endingInShort(ending: Ending): string {
  if (ending.out_of_memory) return "out of memory";
  return ending.signal === null && ending.exit_code === null
    ? "gone without a trace"
    : how(ending).replace("with ", "");
}

/** "Rank 3 ended", "Ended": what the words of an ending follow. */
export function endedWords(ending: Ending, ranks: number): string {
  return `${ranks > 1 ? `Rank ${ending.rank} ended` : "Ended"}${ending.well ? " " : ": "}${endingWords(ending)}`;
}

/** A sentence or two. `ranks` is how many the run has, `seen` what agents saw last of each. */
export function lateWords(late: Late, now: number, ranks: number, seen: readonly Processes[]): string {
  const seconds = Math.max(0, now - late.since);
  const who = late.ranks.length < ranks ? ` from ${ranksText(late.ranks)}` : "";
  const start = `No data${who} for ${formatAge(seconds)}`;
  if (late.is_alive) {
    const one = late.ranks.length === 1 || ranks === 1 ? seen.find(({ rank }) => rank === late.ranks[0]) : undefined;
    return `${start}; the trainer is alive${one ? doing(one) : ""}.`;
  }
  const rest =
    seconds < GIVEN_UP_SECONDS
      ? "What it records in the meantime arrives once it is back."
      : "Whether the run has ended or continues is not known.";
  return `${start}; its machine is not responding. ${rest}`;
}

function doing({ state, cpu_share: busy, processes }: Processes): string {
  if (state === "T" || state === "t") return ", but it is stopped (by Ctrl-Z or a debugger)";
  if (state === "D") return " and waits for a disk or a driver";
  const all = processes > 1 ? `its ${processes} processes keep` : "it keeps";
  return `: ${all} ${busy < 0.05 ? "no processor" : `${formatNumber(busy, 2)} processors`} busy`;
}

function ranksText(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const few = ranks.slice(0, 8);
  const more = ranks.length - few.length;
  return more > 0 ? `ranks ${few.join(", ")} and ${more} more` : `ranks ${few.join(", ")}`;
}
