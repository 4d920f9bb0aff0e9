/** What the debugger's routes say: see tb_netdebug/debugger/README.md. Non-finite numbers are numbers here. */

export const STEPS = ["batch", "layer", "backward", "optimizer", "op"] as const;
export type StepBy = (typeof STEPS)[number];
export const PHASES = ["forward", "backward", "optimizer", "end"] as const;

export const TENSOR_KINDS = [
  "batch",
  "input",
  "output",
  "label",
  "loss",
  "output_gradient",
  "gradient",
  "weight",
  "update",
  "state",
  "user",
] as const;
export const WATCHED_KINDS = [...TENSOR_KINDS, "scalar"] as const;
export const WATCHED_STATISTICS = [
  "nonfinite",
  "min",
  "max",
  "abs_max",
  "mean",
  "abs_mean",
  "std",
  "norm",
  "zeros",
  "change",
] as const;
export const COMPARISONS = [">", "<", "is"] as const;

/** Where a training is. */
export interface Place {
  readonly phase: string;
  readonly module: string | null;
  readonly class_name: string | null;
  readonly edge: string;
  readonly op: string | null;
  /** Counts the stops within the batch. */
  readonly number: number;
  readonly file: string | null;
  readonly line: number;
  readonly function: string;
}

export interface Reason {
  readonly kind: string;
  readonly text: string;
  /** Of the breakpoint or watchpoint. */
  readonly id: number | null;
}

export interface Breakpoint {
  readonly id: number;
  readonly layer: string | null;
  readonly phase: string;
  readonly step: number | null;
  readonly is_on: boolean;
  readonly hits: number;
}

/** A watchpoint before it is set. */
export interface Condition {
  readonly kind: string;
  readonly tensors: string;
  readonly statistic: string;
  readonly comparison: string;
  readonly threshold: number | null;
  readonly preset: string | null;
}

export interface Watchpoint extends Condition {
  readonly id: number;
  readonly is_on: boolean;
  readonly advice: string;
  readonly hits: number;
  /** Why it cannot be looked at. */
  readonly complaint: string | null;
}

export interface Preset extends Condition {
  readonly title: string;
  readonly advice: string;
}

export interface LearningRate {
  readonly optimizer: number;
  readonly group: number;
  readonly name: string;
  readonly value: number;
}

export interface DebuggerState {
  readonly version: number;
  readonly status: "running" | "paused" | "over";
  readonly is_attached: boolean;
  readonly step: number;
  readonly place: Place | null;
  readonly reason: Reason | null;
  readonly paused_at: number | null;
  readonly lease_secs: number;
  /** When it goes on by itself, because others wait for it. */
  readonly resumes_at: number | null;
  readonly is_waiting: boolean;
  readonly loss: number | null;
  readonly hits: number;
  readonly breakpoints: readonly Breakpoint[];
  readonly watchpoints: readonly Watchpoint[];
  readonly learning_rates: readonly LearningRate[];
  readonly note: string | null;
}

/** The training, and what can be done with it. */
export interface SessionFacts {
  /** As the list of runs calls it. */
  readonly run: string;
  readonly rank: number;
  readonly world_size: number;
  readonly group: string;
  readonly pid: number;
  readonly host: string;
  readonly program: string;
  readonly framework: string;
  readonly models: Readonly<Record<string, string>>;
  readonly can: readonly string[];
  readonly cannot: readonly string[];
  readonly collective_timeout_secs: number | null;
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

export interface DebuggedModule {
  readonly name: string;
  readonly class_name: string;
  readonly parent: string | null;
  readonly parameters: number;
  readonly file: string | null;
  readonly line: number;
  readonly order: number | null;
}

export interface Local {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

export interface StackFrame {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly is_user: boolean;
  readonly locals: readonly Local[];
}

export interface SourceText {
  readonly file: string;
  readonly first_line: number;
  readonly lines: readonly string[];
}

export interface TensorEntry {
  readonly name: string;
  readonly kind: string;
  readonly of: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly device: string;
  readonly bytes: number;
  readonly module: string | null;
}

export interface BatchEntry extends TensorEntry {
  readonly role: "input" | "label";
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

export interface Hit {
  readonly number: number;
  readonly step: number;
  readonly place: Place | null;
  readonly watchpoint: number | null;
  readonly tensor: string;
  readonly kind: string;
  readonly statistic: string;
  readonly comparison: string;
  readonly threshold: number | null;
  readonly actual: number;
  readonly advice: string;
}
