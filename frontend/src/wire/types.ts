/** What the server says, after parsing: non-finite numbers, which travel as strings, are numbers here. */

export type RunState = "live" | "idle" | "ended" | "unknown";
export type Kind = "weight" | "gradient" | "update" | "activation" | "tensor";
export type Severity = "error" | "warning" | "info";
export type Verdict = "sick" | "suspect" | "healthy" | "unknown";

/** How the training of a rank ended, as the agent beside it saw it. */
export interface Ending {
  readonly rank: number;
  readonly time: number;
  /** The training itself has said so. */
  readonly well: boolean;
  readonly exit_code: number | null;
  readonly signal: number | null;
  readonly out_of_memory: boolean;
  readonly sentence: string;
}

/** Nothing has come of these ranks since then. */
export interface Late {
  readonly since: number;
  /** Whether the training goes on all the same; if not, nothing is known of it: its machine does not answer. */
  readonly is_alive: boolean;
  readonly ranks: readonly number[];
}

export interface RunRow {
  readonly name: string;
  readonly kind: "netdebug" | "summary";
  readonly started: number;
  readonly changed: number;
  readonly size_bytes: number;
  /** null: not read yet. */
  readonly version: number | null;
  readonly first_step: number | null;
  readonly last_step: number | null;
  readonly steps: number | null;
  readonly loss: number | null;
  readonly state: RunState;
  readonly ranks: number | null;
  readonly gaps: number | null;
  readonly complaint: string | null;
  /** null: nobody has judged it. */
  readonly verdict: Verdict | null;
  /** Of a run that is unknown or not judged: why, and what to do. */
  readonly reason: string | null;
  /** null: it goes on, or nobody has seen the end. Of several ranks what went wrong first. */
  readonly ending: Ending | null;
  readonly late: Late | null;
}

/** Where records of trainings elsewhere are taken; both are null while that is not known yet. */
export interface CollectorState {
  readonly address: string | null;
  readonly trouble: string | null;
}

export interface RunList {
  readonly epoch: string;
  readonly version: number;
  readonly logdir: string;
  /** Whether the first look at the logdir is over. */
  readonly complete: boolean;
  readonly complaints: readonly string[];
  readonly collector: CollectorState;
  readonly runs: readonly RunRow[];
}

export interface SeriesName {
  readonly kind: Kind;
  readonly name: string;
}

export interface Gap {
  readonly file: string;
  readonly offset: number;
  readonly size: number;
  readonly complaint: string;
}

/** What was seen, and the threshold that it is held against, where there is one. */
export type Evidence = string | number | boolean | { readonly value: string | number; readonly limit: string | number };

export interface Finding {
  readonly rule: string;
  readonly severity: Severity;
  readonly first_step: number;
  readonly last_step: number;
  readonly where: readonly string[];
  readonly message: string;
  readonly evidence: Readonly<Record<string, Evidence>>;
  readonly advice: string;
  /** From 0 to 1: how often the check is right when it says this. */
  readonly sureness: number;
  /** The rule of the finding that explains this one. */
  readonly cause: string | null;
  /** The rules of those that this one explains, in the order in which they began. */
  readonly consequences: readonly string[];
}

/** What the agent saw last of a training with all of its processes. */
export interface Processes {
  readonly rank: number;
  readonly time: number;
  readonly tree_bytes: number;
  readonly processes: number;
  readonly threads: number;
  readonly cpu_share: number;
  /** The letter of its main thread in /proc. */
  readonly state: string;
}

export interface RunDetails extends RunRow {
  readonly info: Readonly<Record<string, unknown>>;
  readonly rank_list: readonly number[];
  readonly scalars: readonly string[];
  /** In the order of execution. */
  readonly series: readonly SeriesName[];
  readonly sampled_every: number | null;
  readonly overhead: number | null;
  readonly gap_list: readonly Gap[];
  readonly has_graph: boolean;
  readonly first_time: number | null;
  readonly last_time: number | null;
  readonly findings: readonly Finding[];
  readonly endings: readonly Ending[];
  /** One for each rank that has an agent. */
  readonly processes: readonly Processes[];
}

export interface TensorShape {
  readonly shape: readonly number[];
  readonly dtype: string;
}

export interface GraphNode {
  readonly name: string;
  readonly class_name: string;
  readonly parent: string | null;
  readonly parameters: number;
  readonly trainable: number;
  readonly own_parameters: readonly (TensorShape & { readonly name: string; readonly trainable: boolean })[];
  readonly source_file: string;
  readonly source_line: number;
  readonly inputs: readonly TensorShape[];
  readonly outputs: readonly TensorShape[];
  readonly calls: number;
  /** null: never called. */
  readonly order: number | null;
}

export interface GraphEdge extends TensorShape {
  readonly source: string;
  readonly target: string;
  readonly output: number;
  readonly input: number;
}

export interface GraphData {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

// ---- queries of the `columns` route and their answers --------------------------------------------------

interface Selection {
  readonly run: string;
  readonly first?: number;
  readonly last?: number;
  readonly rank?: number;
}
export interface ScalarsQuery extends Selection {
  readonly what: "scalars";
  readonly names: readonly string[];
  readonly points?: number;
}
export interface HeatQuery extends Selection {
  readonly what: "heat";
  readonly kind: Kind;
  readonly statistic: string;
  readonly columns?: number;
  readonly pattern?: string;
}
export interface BandsQuery extends Selection {
  readonly what: "bands";
  readonly kind: Kind;
  readonly name: string;
  readonly columns?: number;
}
export interface HistogramQuery extends Selection {
  readonly what: "histogram";
  readonly kind: Kind;
  readonly name: string;
}
export interface HistogramsQuery extends Selection {
  readonly what: "histograms";
  readonly kind: Kind;
  readonly name: string;
  readonly columns?: number;
}
export interface TableQuery {
  readonly what: "table";
  readonly run: string;
  readonly kind: Kind;
  readonly step?: number;
  readonly rank?: number;
}
export interface ProcessesQuery {
  readonly what: "processes";
  readonly run: string;
  readonly rank?: number;
}
export type Query =
  | ScalarsQuery
  | HeatQuery
  | BandsQuery
  | HistogramQuery
  | HistogramsQuery
  | TableQuery
  | ProcessesQuery;

/** All of one length; a row is a bucket of steps (one step at level 0). */
export interface ScalarColumns {
  readonly step: Float64Array;
  readonly last: Float64Array;
  readonly time: Float64Array;
  readonly samples: Float64Array;
  readonly mean: Float64Array;
  readonly min: Float64Array;
  readonly max: Float64Array;
  /** Number of non-finite values in the bucket. */
  readonly bad: Float64Array;
  /** The last value as it came, may be NaN or infinite. */
  readonly end: Float64Array;
  readonly count: Float64Array;
}

interface Answered {
  readonly run: string;
  readonly version: number;
}
export interface ScalarsAnswer extends Answered {
  readonly what: "scalars";
  readonly level: number;
  readonly scalars: ReadonlyMap<string, ScalarColumns>;
}
export interface HeatAnswer extends Answered {
  readonly what: "heat";
  readonly names: readonly string[];
  readonly first: Float64Array;
  readonly last: Float64Array;
  /** names.length rows of first.length values; NaN: no sample. */
  readonly values: Float32Array;
}
/** The quantiles that `bands` come with, in the order of their columns. */
export const QUANTILES = [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1] as const;
export interface BandsAnswer extends Answered {
  readonly what: "bands";
  readonly first: Float64Array;
  readonly last: Float64Array;
  /** first.length rows of QUANTILES.length values. */
  readonly quantiles: Float64Array;
  readonly statistics: ReadonlyMap<string, Float64Array>;
}
export interface HistogramAnswer extends Answered {
  readonly what: "histogram";
  /** null: there is no sample at or before the end of the range. */
  readonly histogram: Histogram | null;
}
export interface Histogram {
  readonly first: number;
  readonly last: number;
  readonly merged: number;
  readonly statistics: ReadonlyMap<string, number>;
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly counts: Float64Array;
  readonly nan: number;
  readonly pos_inf: number;
  readonly neg_inf: number;
  readonly zeros: number;
  readonly units_active: number | null;
  readonly units: number | null;
}
export interface HistogramsAnswer extends Answered {
  readonly what: "histograms";
  readonly first: Float64Array;
  readonly last: Float64Array;
  /** Bins of histogram i are offsets[i] … offsets[i + 1]. */
  readonly offsets: Int32Array;
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly counts: Float64Array;
  readonly nonfinite: Float64Array;
}
export interface TableAnswer extends Answered {
  readonly what: "table";
  readonly names: readonly string[];
  /** Of the samples, one for each name. */
  readonly steps: Float64Array;
  readonly statistics: ReadonlyMap<string, Float64Array>;
}
/** Over time, all of one length. */
export interface ProcessesAnswer extends Answered {
  readonly what: "processes";
  readonly time: Float64Array;
  /** Memory of all processes of the training: the mean of each row, and the most. */
  readonly tree_bytes: Float64Array;
  readonly most_bytes: Float64Array;
  readonly cpu_share: Float64Array;
  readonly processes: Float64Array;
}
export interface FailedAnswer {
  readonly what: "failed";
  readonly error: string;
}
export type Answer =
  | ScalarsAnswer
  | HeatAnswer
  | BandsAnswer
  | HistogramAnswer
  | HistogramsAnswer
  | TableAnswer
  | ProcessesAnswer
  | FailedAnswer;
