/** What the debugger's routes say: see tb_netdebug/debugger/README.md. Non-finite numbers are numbers here. */

import type { DebuggedSession, DebuggerState, Watchpoint } from "./debugger-table";

export type * from "./debugger-table";
export { COMPARISONS, PHASES, STEPS, TENSOR_KINDS, WATCHED_KINDS, WATCHED_STATISTICS } from "./debugger-table";

/** A watchpoint before it is set. */
export type Condition = Pick<Watchpoint, "kind" | "tensors" | "statistic" | "comparison" | "threshold" | "preset">;

/** The training, and what can be done with it. */
export interface SessionFacts extends Omit<DebuggedSession, "run" | "run_dir"> {
  /** As the list of runs calls it. */
  readonly run: string;
}

export interface Holder {
  readonly client: string;
  readonly label: string;
}

export interface DebuggerEntry {
  readonly key: string;
  readonly session: SessionFacts;
  readonly state: DebuggerState;
  readonly holder: Holder | null;
  /** How many attend. */
  readonly clients: number;
  readonly is_connected: boolean;
}

export interface DebuggerSessions {
  /** Another one is another TensorBoard. */
  readonly epoch: string;
  readonly sessions: readonly DebuggerEntry[];
}

/** Of the live stream; without an entry the session has gone. */
export interface DebuggerNews {
  readonly key: string;
  readonly entry: DebuggerEntry | null;
}

/** A slice as a matrix, of which every n-th row and column may be left. */
export interface Matrix {
  readonly height: number;
  readonly width: number;
  /** Index of the first, and how many lie between two. */
  readonly rows: readonly [first: number, step: number];
  readonly columns: readonly [first: number, step: number];
  /** Row by row. */
  readonly values: Float64Array;
}

export const VIEW_STATISTICS = [
  "count",
  "mean",
  "std",
  "norm",
  "min",
  "max",
  "zeros",
  "nan",
  "pos_inf",
  "neg_inf",
] as const;

/** Columns of one length, a row for each bin. */
export interface LookHistogram {
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly counts: Float64Array;
}

export interface TensorLook {
  readonly statistics: Readonly<Record<string, number>>;
  /** null without values. */
  readonly histogram: LookHistogram | null;
  readonly cells: Matrix | null;
}

export interface TensorView extends TensorLook {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly device: string;
  readonly bytes: number;
  readonly slice: string;
  readonly previous: TensorLook | null;
  readonly difference: TensorLook | null;
  readonly notes: readonly string[];
}
