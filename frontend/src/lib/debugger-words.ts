/** What the debugger's page says, in words. */

import type { Condition, DebuggerEntry, DebuggerState, Place, StepBy } from "../wire/debugger-types";
import { formatAge } from "./elapsed";
import { formatCount, formatNumber } from "./format";
import { isQuick, LONGEST_NAME } from "./search";

/** "before encoder.layers.2", to go behind "in batch 812, ". */
export function placeWords(place: Place): string {
  const edge = place.edge === "after" ? "after" : "before";
  const whole = place.module ?? (place.class_name || "the model");
  if (place.phase === "start") return "at its start";
  if (place.phase === "end") return "at its end";
  if (place.phase === "code") return `at nd.breakpoint()${codeWords(place)}`;
  if (place.op !== null) return `before ${place.op} in ${whole}`;
  if (place.phase === "optimizer") return `${edge} the optimizer's step`;
  if (place.phase === "backward") {
    if (place.module === null) return `${edge} the backward pass`;
    return edge === "before" ? `in the backward pass, before ${whole}` : `in the backward pass, after ${whole}`;
  }
  return place.module === null ? `${edge} the forward pass` : `${edge} ${whole}`;
}

/** " in train.py:12", or nothing. */
export function codeWords({ file, line }: Pick<Place, "file" | "line">): string {
  return file === null || line === 0 ? "" : ` in ${fileName(file)}:${line}`;
}

export function fileName(path: string): string {
  return path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
}

export type Tone = "paused" | "running" | "lost" | "over";

export interface StatusWords {
  readonly tone: Tone;
  readonly text: string;
  /** Why it is so; empty where there is nothing to say. */
  readonly why: string;
}

export function statusWords(state: DebuggerState, isConnected: boolean): StatusWords {
  const where = state.place ? `, ${placeWords(state.place)}` : "";
  const batch = `batch ${formatCount(state.step)}`;
  if (state.status === "over") return { tone: "over", text: "The run has ended", why: "" };
  if (!isConnected) {
    const why = "The connection to the run was lost; reconnecting. A paused run continues by itself.";
    return { tone: "lost", text: `Last seen in ${batch}${where}`, why };
  }
  if (state.status === "paused") {
    return { tone: "paused", text: `Paused in ${batch}${where}`, why: reasonWords(state.reason?.text ?? "") };
  }
  const why = state.is_waiting ? "It stops at the requested place." : "";
  return { tone: "running", text: `Running, in ${batch}`, why };
}

/** What the list of runs and the Overview say of a paused training. */
export function pausedWords(state: DebuggerState, now: number): string {
  const age = state.paused_at === null ? "" : `, for ${formatAge(now - state.paused_at)}`;
  return `${statusWords(state, true).text}${age}. To continue it, open the Debugger page.`;
}

/** A reason is a sentence of its own, or the rest of one. */
function reasonWords(text: string): string {
  return /^\p{Ll}/u.test(text) ? `because ${text}` : text;
}

const STEP_WORDS: Readonly<Record<StepBy, readonly [label: string, what: string]>> = {
  batch: ["Batch", "To the end of this batch"],
  layer: ["Layer", "To the next layer, forward or backward"],
  backward: ["Backward", "To the next layer of the backward pass"],
  optimizer: ["Optimizer", "To the optimizer's step"],
  op: ["Op", "To the next operation, also inside a layer"],
};

export function stepLabel(by: StepBy): string {
  return STEP_WORDS[by][0];
}

export function stepMeaning(by: StepBy): string {
  return STEP_WORDS[by][1];
}

const STATISTIC_WORDS: Readonly<Record<string, string>> = {
  nonfinite: "NaN or Inf",
  min: "min",
  max: "max",
  abs_max: "abs max",
  mean: "mean",
  abs_mean: "abs mean",
  std: "std",
  norm: "norm",
  zeros: "share of zeros",
  change: "relative change",
};

export function statisticWords(statistic: string): string {
  return STATISTIC_WORDS[statistic] ?? statistic;
}

export function kindWords(kind: string): string {
  return kind === "state" ? "optimizer state" : kind.replace("_", " ");
}

/** "gradient: abs max > 100", for a condition or a hit. */
export function conditionWords(condition: Pick<Condition, "kind" | "statistic" | "comparison" | "threshold">): string {
  const { kind, statistic, comparison, threshold } = condition;
  const words = `${kindWords(kind)}: ${statisticWords(statistic)}`;
  return comparison === "is" || threshold === null ? words : `${words} ${comparison} ${formatNumber(threshold)}`;
}

/** The pattern that finds this layer and no other. */
export function exactPattern(name: string): string {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

/**
 * Whether a pattern finds a name. Python's patterns are not quite ours; what we cannot read, or what might keep the
 * browser busy, finds nothing here. Where the run stops is decided in the run, and there every pattern is quick.
 */
export function isFound(pattern: string | null, name: string): boolean {
  if (pattern === null || !isQuick(pattern)) return false;
  try {
    return new RegExp(pattern).test(name.slice(0, LONGEST_NAME));
  } catch {
    return false;
  }
}

/** Why nothing is to be seen of what the model was given, and from when on. */
export function unseenBatchWords({ state, session }: Pick<DebuggerEntry, "state" | "session">): string {
  if (state.place?.phase === "start") {
    const how = session.can.includes("layer") ? " (F10 steps to its first layer)" : "";
    return `The model has no input yet; it gets one in the next step${how}.`;
  }
  return "The model's input was not captured in this batch; it will be in the next one.";
}

export function shapeWords(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : shape.join(" × ");
}
