/** What a training says. Made by `make table` of tb_netdebug/debugger/protocol/: change that, not this. */

import { number, text } from "./json";
import { count, list, maybe, maybeNumber, maybeText, object, oneOf } from "./fields";
import { numbers, texts, textsByName } from "./fields";

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
export const WATCHED_KINDS = [
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
  "scalar",
] as const;
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

export interface Place {
  /** "end" is that of a batch, "code" is `nd.breakpoint()`. */
  readonly phase: string;
  /** Name of a layer as in the graph of the run. */
  readonly module: string | null;
  /** Class of the layer. */
  readonly class_name: string | null;
  /** Of the layer, phase or operation. */
  readonly edge: string;
  /** An operation such as "aten.addmm.default". */
  readonly op: string | null;
  /** Counts the stops within the batch. */
  readonly number: number;
  /** Of the line of the user's program. */
  readonly file: string | null;
  /** The line of the user's program. */
  readonly line: number;
  /** The function that the line is in. */
  readonly function: string;
}

export function parsePlace(value: unknown): Place {
  const json = object(value);
  return {
    phase: text(json["phase"]),
    module: maybeText(json["module"]),
    class_name: maybeText(json["class_name"]),
    edge: text(json["edge"]),
    op: maybeText(json["op"]),
    number: count(json["number"]),
    file: maybeText(json["file"]),
    line: count(json["line"]),
    function: text(json["function"]),
  };
}

export interface Reason {
  /** "asked", "start", "step", "breakpoint", "watchpoint", "finding" or "code". */
  readonly kind: string;
  /** A sentence. */
  readonly text: string;
  /** Of the breakpoint or watchpoint. */
  readonly id: number | null;
}

export function parseReason(value: unknown): Reason {
  const json = object(value);
  return {
    kind: text(json["kind"]),
    text: text(json["text"]),
    id: maybeNumber(json["id"]),
  };
}

export interface Breakpoint {
  /** Its number. */
  readonly id: number;
  /** Pattern of the layers; null: the whole batch. */
  readonly layer: string | null;
  /** It stops where this phase begins. */
  readonly phase: string;
  /** From this batch on. */
  readonly step: number | null;
  /** Off: it stays in the list, and stops nothing. */
  readonly is_on: boolean;
  /** How often it has stopped the run. */
  readonly hits: number;
}

export function parseBreakpoint(value: unknown): Breakpoint {
  const json = object(value);
  return {
    id: count(json["id"]),
    layer: maybeText(json["layer"]),
    phase: text(json["phase"]),
    step: maybeNumber(json["step"]),
    is_on: json["is_on"] !== false,
    hits: count(json["hits"]),
  };
}

export interface Watchpoint {
  /** Its number. */
  readonly id: number;
  /** The kind of tensors that it watches. */
  readonly kind: string;
  /** Pattern of their names. */
  readonly tensors: string;
  /** What is compared: see below. */
  readonly statistic: string;
  /** ">", "<" or, for nonfinite, "is". */
  readonly comparison: string;
  /** Null for "is". */
  readonly threshold: number | null;
  /** Off: it stays in the list, and stops nothing. */
  readonly is_on: boolean;
  /** What to do after a hit. */
  readonly advice: string;
  /** Slug of the recommended one that it was made from. */
  readonly preset: string | null;
  /** How many tensors it has hit. */
  readonly hits: number;
  /** Why it cannot be evaluated. */
  readonly complaint: string | null;
}

export function parseWatchpoint(value: unknown): Watchpoint {
  const json = object(value);
  return {
    id: count(json["id"]),
    kind: text(json["kind"]),
    tensors: text(json["tensors"]),
    statistic: text(json["statistic"]),
    comparison: text(json["comparison"]),
    threshold: maybeNumber(json["threshold"]),
    is_on: json["is_on"] !== false,
    advice: text(json["advice"]),
    preset: maybeText(json["preset"]),
    hits: count(json["hits"]),
    complaint: maybeText(json["complaint"]),
  };
}

export interface LearningRate {
  /** Number of the optimizer. */
  readonly optimizer: number;
  /** Number of its group of parameters. */
  readonly group: number;
  /** Class of the optimizer. */
  readonly name: string;
  /** The learning rate. */
  readonly value: number;
}

export function parseLearningRate(value: unknown): LearningRate {
  const json = object(value);
  return {
    optimizer: count(json["optimizer"]),
    group: count(json["group"]),
    name: text(json["name"]),
    value: number(json["value"]),
  };
}

export interface DebuggerState {
  /** Increases with each change. */
  readonly version: number;
  /** Whether it runs. */
  readonly status: "running" | "paused" | "over";
  /** A client is attached and the lease holds. */
  readonly is_attached: boolean;
  /** Number of the current batch. */
  readonly step: number;
  /** The current place, or the last one known; null before the first. */
  readonly place: Place | null;
  /** Why it is paused; null while it runs. */
  readonly reason: Reason | null;
  /** Wall time; null while it runs. */
  readonly paused_at: number | null;
  /** How long the run stays paused without a renewal. */
  readonly lease_secs: number;
  /** Wall time when the run resumes by itself because other ranks wait for it (collective time-out). */
  readonly resumes_at: number | null;
  /** It runs towards a requested stop. */
  readonly is_waiting: boolean;
  /** The loss of the last finished step. */
  readonly loss: number | null;
  /** The total number of hits so far. */
  readonly hits: number;
  /** All, also those that are off. */
  readonly breakpoints: readonly Breakpoint[];
  /** All, also those that are off. */
  readonly watchpoints: readonly Watchpoint[];
  /** One a group of parameters. */
  readonly learning_rates: readonly LearningRate[];
  /** A sentence for the user: what could not be done as requested. */
  readonly note: string | null;
}

export function parseDebuggerState(value: unknown): DebuggerState {
  const json = object(value);
  return {
    version: count(json["version"]),
    status: oneOf(["running", "paused", "over"], json["status"]),
    is_attached: json["is_attached"] === true,
    step: count(json["step"]),
    place: maybe(json["place"], parsePlace),
    reason: maybe(json["reason"], parseReason),
    paused_at: maybeNumber(json["paused_at"]),
    lease_secs: count(json["lease_secs"]),
    resumes_at: maybeNumber(json["resumes_at"]),
    is_waiting: json["is_waiting"] === true,
    loss: maybeNumber(json["loss"]),
    hits: count(json["hits"]),
    breakpoints: list(json["breakpoints"], parseBreakpoint),
    watchpoints: list(json["watchpoints"], parseWatchpoint),
    learning_rates: list(json["learning_rates"], parseLearningRate),
    note: maybeText(json["note"]),
  };
}

export interface DebuggedSession {
  /** Folder names. */
  readonly run: readonly string[];
  /** The folder of the run. */
  readonly run_dir: string;
  /** Which process of the run it is. */
  readonly rank: number;
  /** How many processes the run has. */
  readonly world_size: number;
  /** The same text for all ranks of one run. */
  readonly group: string;
  /** Number of the process. */
  readonly pid: number;
  /** Name of the machine. */
  readonly host: string;
  /** The user's script. */
  readonly program: string;
  /** Name of the framework. */
  readonly framework: string;
  /** The class of each model by its name. */
  readonly models: Readonly<Record<string, string>>;
  /** The steps that work here. */
  readonly can: readonly string[];
  /** Sentences that explain why the others do not. */
  readonly cannot: readonly string[];
  /** Null without a process group. */
  readonly collective_timeout_secs: number | null;
}

export function parseDebuggedSession(value: unknown): DebuggedSession {
  const json = object(value);
  return {
    run: texts(json["run"]),
    run_dir: text(json["run_dir"]),
    rank: count(json["rank"]),
    world_size: count(json["world_size"]) || 1,
    group: text(json["group"]),
    pid: count(json["pid"]),
    host: text(json["host"]),
    program: text(json["program"]),
    framework: text(json["framework"]),
    models: textsByName(json["models"]),
    can: texts(json["can"]),
    cannot: texts(json["cannot"]),
    collective_timeout_secs: maybeNumber(json["collective_timeout_secs"]),
  };
}

export interface Preset {
  /** Its slug. */
  readonly preset: string | null;
  /** What it finds. */
  readonly title: string;
  /** As in a watchpoint. */
  readonly kind: string;
  /** As in a watchpoint. */
  readonly statistic: string;
  /** As in a watchpoint. */
  readonly comparison: string;
  /** As in a watchpoint. */
  readonly threshold: number | null;
  /** What to do after a hit. */
  readonly advice: string;
  /** As in a watchpoint. */
  readonly tensors: string;
}

export function parsePreset(value: unknown): Preset {
  const json = object(value);
  return {
    preset: maybeText(json["preset"]),
    title: text(json["title"]),
    kind: text(json["kind"]),
    statistic: text(json["statistic"]),
    comparison: text(json["comparison"]),
    threshold: maybeNumber(json["threshold"]),
    advice: text(json["advice"]),
    tensors: text(json["tensors"]),
  };
}

export interface Hit {
  /** Counts all hits of a run from 1 on. */
  readonly number: number;
  /** Number of the batch. */
  readonly step: number;
  /** Where it was seen. */
  readonly place: Place | null;
  /** Id of the watchpoint. */
  readonly watchpoint: number | null;
  /** Name of the tensor. */
  readonly tensor: string;
  /** Kind of the tensor. */
  readonly kind: string;
  /** As in the watchpoint. */
  readonly statistic: string;
  /** As in the watchpoint. */
  readonly comparison: string;
  /** As in the watchpoint. */
  readonly threshold: number | null;
  /** Value of the statistic. */
  readonly actual: number;
  /** What to do now. */
  readonly advice: string;
}

export function parseHit(value: unknown): Hit {
  const json = object(value);
  return {
    number: count(json["number"]),
    step: count(json["step"]),
    place: maybe(json["place"], parsePlace),
    watchpoint: maybeNumber(json["watchpoint"]),
    tensor: text(json["tensor"]),
    kind: text(json["kind"]),
    statistic: text(json["statistic"]),
    comparison: text(json["comparison"]),
    threshold: maybeNumber(json["threshold"]),
    actual: number(json["actual"]),
    advice: text(json["advice"]),
  };
}

export interface DebuggedModule {
  /** Name of the layer, empty for the model. */
  readonly name: string;
  /** Its class. */
  readonly class_name: string;
  /** Name of the layer around it. */
  readonly parent: string | null;
  /** How many parameters it has. */
  readonly parameters: number;
  /** Where its forward pass is defined. */
  readonly file: string | null;
  /** The line there. */
  readonly line: number;
  /** When it was called first, among the layers. */
  readonly order: number | null;
}

export function parseDebuggedModule(value: unknown): DebuggedModule {
  const json = object(value);
  return {
    name: text(json["name"]),
    class_name: text(json["class_name"]),
    parent: maybeText(json["parent"]),
    parameters: count(json["parameters"]),
    file: maybeText(json["file"]),
    line: count(json["line"]),
    order: maybeNumber(json["order"]),
  };
}

export interface Local {
  /** Name of the variable. */
  readonly name: string;
  /** Its type. */
  readonly type: string;
  /** A summary of its value. */
  readonly text: string;
}

export function parseLocal(value: unknown): Local {
  const json = object(value);
  return {
    name: text(json["name"]),
    type: text(json["type"]),
    text: text(json["text"]),
  };
}

export interface StackFrame {
  /** Path of the file. */
  readonly file: string;
  /** The line that runs. */
  readonly line: number;
  /** Name of the function. */
  readonly function: string;
  /** The code is the user's own. */
  readonly is_user: boolean;
  /** Variables of the function. */
  readonly locals: readonly Local[];
}

export function parseStackFrame(value: unknown): StackFrame {
  const json = object(value);
  return {
    file: text(json["file"]),
    line: count(json["line"]),
    function: text(json["function"]),
    is_user: json["is_user"] === true,
    locals: list(json["locals"], parseLocal),
  };
}

export interface SourceText {
  /** Path of the file. */
  readonly file: string;
  /** Number of the first line. */
  readonly first_line: number;
  /** The text. */
  readonly lines: readonly string[];
}

export function parseSourceText(value: unknown): SourceText {
  const json = object(value);
  return {
    file: text(json["file"]),
    first_line: count(json["first_line"]) || 1,
    lines: texts(json["lines"]),
  };
}

export interface TensorEntry {
  /** KIND:NAME. */
  readonly name: string;
  /** Kind of the tensor. */
  readonly kind: string;
  /** Name of the layer, parameter or argument. */
  readonly of: string;
  /** Its shape. */
  readonly shape: readonly number[];
  /** Type of its values. */
  readonly dtype: string;
  /** Where it lies. */
  readonly device: string;
  /** Its size. */
  readonly bytes: number;
  /** The layer that it belongs to. */
  readonly module: string | null;
}

export function parseTensorEntry(value: unknown): TensorEntry {
  const json = object(value);
  return {
    name: text(json["name"]),
    kind: text(json["kind"]),
    of: text(json["of"]),
    shape: numbers(json["shape"]),
    dtype: text(json["dtype"]),
    device: text(json["device"]),
    bytes: count(json["bytes"]),
    module: maybeText(json["module"]),
  };
}

export interface BatchEntry {
  /** KIND:NAME. */
  readonly name: string;
  /** Kind of the tensor. */
  readonly kind: string;
  /** Name of the layer, parameter or argument. */
  readonly of: string;
  /** Its shape. */
  readonly shape: readonly number[];
  /** Type of its values. */
  readonly dtype: string;
  /** Where it lies. */
  readonly device: string;
  /** Its size. */
  readonly bytes: number;
  /** The layer that it belongs to. */
  readonly module: string | null;
  /** What it is in the batch. */
  readonly role: "input" | "label";
}

export function parseBatchEntry(value: unknown): BatchEntry {
  const json = object(value);
  return {
    name: text(json["name"]),
    kind: text(json["kind"]),
    of: text(json["of"]),
    shape: numbers(json["shape"]),
    dtype: text(json["dtype"]),
    device: text(json["device"]),
    bytes: count(json["bytes"]),
    module: maybeText(json["module"]),
    role: oneOf(["input", "label"], json["role"]),
  };
}
