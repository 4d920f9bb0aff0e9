/** From JSON to the types of debugger-types.ts. A training says most of it: what is missing or odd does no harm. */

import { number, text } from "./json";
import type * as T from "./debugger-types";

type Json = Readonly<Record<string, unknown>>;

function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list<Item>(value: unknown, parse: (each: Json) => Item): Item[] {
  return Array.isArray(value) ? value.map((each) => parse(object(each))) : [];
}

function numbers(value: unknown): number[] {
  return Array.isArray(value) ? value.map(number) : [];
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(text) : [];
}

function maybeText(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function maybeNumber(value: unknown): number | null {
  return value === null || value === undefined ? null : number(value);
}

function count(value: unknown): number {
  return number(value) || 0;
}

export function parseSessions(json: Json): T.DebuggerSessions {
  const sessions = list(json["sessions"], parseEntry).filter((each) => each !== null);
  return { epoch: text(json["epoch"]), sessions };
}

/** null for what is no event of the debugger. */
export function parseNews(data: unknown): T.DebuggerNews | null {
  const json = object(data);
  const key = maybeText(json["key"]);
  if (key === null) return null;
  return { key, entry: json["is_gone"] === true ? null : parseEntry(json) };
}

function parseEntry(json: Json): T.DebuggerEntry | null {
  const key = maybeText(json["key"]);
  if (key === null) return null;
  const holder = json["holder"] ? object(json["holder"]) : null;
  return {
    key,
    session: parseFacts(object(json["session"])),
    state: parseState(json["state"]),
    holder: holder && { client: text(holder["client"]), label: text(holder["label"]) },
    clients: count(json["clients"]),
    is_connected: json["is_connected"] !== false,
  };
}

function parseFacts(json: Json): T.SessionFacts {
  return {
    run: texts(json["run"]).join("/"),
    rank: count(json["rank"]),
    world_size: count(json["world_size"]) || 1,
    group: text(json["group"]),
    pid: count(json["pid"]),
    host: text(json["host"]),
    program: text(json["program"]),
    framework: text(json["framework"]),
    models: Object.fromEntries(Object.entries(object(json["models"])).map(([name, value]) => [name, text(value)])),
    can: texts(json["can"]),
    cannot: texts(json["cannot"]),
    collective_timeout_secs: maybeNumber(json["collective_timeout_secs"]),
  };
}

/** Also of an answer that is a state. */
export function parseState(value: unknown): T.DebuggerState {
  const json = object(value);
  const status = json["status"];
  const reason = json["reason"] ? object(json["reason"]) : null;
  return {
    version: count(json["version"]),
    status: status === "paused" || status === "over" ? status : "running",
    is_attached: json["is_attached"] === true,
    step: count(json["step"]),
    place: parsePlace(json["place"]),
    reason: reason && { kind: text(reason["kind"]), text: text(reason["text"]), id: maybeNumber(reason["id"]) },
    paused_at: maybeNumber(json["paused_at"]),
    lease_secs: count(json["lease_secs"]),
    resumes_at: maybeNumber(json["resumes_at"]),
    is_waiting: json["is_waiting"] === true,
    loss: maybeNumber(json["loss"]),
    hits: count(json["hits"]),
    breakpoints: list(json["breakpoints"], parseBreakpoint),
    watchpoints: list(json["watchpoints"], parseWatchpoint),
    learning_rates: parseRates(json["learning_rates"]),
    note: maybeText(json["note"]),
  };
}

function parsePlace(value: unknown): T.Place | null {
  if (!value) return null;
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

function parseBreakpoint(json: Json): T.Breakpoint {
  return {
    id: count(json["id"]),
    layer: maybeText(json["layer"]),
    phase: text(json["phase"]),
    step: maybeNumber(json["step"]),
    is_on: json["is_on"] !== false,
    hits: count(json["hits"]),
  };
}

function parseCondition(json: Json): T.Condition {
  return {
    kind: text(json["kind"]),
    tensors: text(json["tensors"]),
    statistic: text(json["statistic"]),
    comparison: text(json["comparison"]),
    threshold: maybeNumber(json["threshold"]),
    preset: maybeText(json["preset"]),
  };
}

function parseWatchpoint(json: Json): T.Watchpoint {
  return {
    ...parseCondition(json),
    id: count(json["id"]),
    is_on: json["is_on"] !== false,
    advice: text(json["advice"]),
    hits: count(json["hits"]),
    complaint: maybeText(json["complaint"]),
  };
}

export function parsePresets(value: unknown): T.Preset[] {
  return list(value, (json) => ({
    ...parseCondition(json),
    title: text(json["title"]),
    advice: text(json["advice"]),
  }));
}

export function parseRates(value: unknown): T.LearningRate[] {
  return list(value, (json) => ({
    optimizer: count(json["optimizer"]),
    group: count(json["group"]),
    name: text(json["name"]),
    value: number(json["value"]),
  }));
}

export function parseModules(value: unknown): T.DebuggedModule[] {
  return list(value, (json) => ({
    name: text(json["name"]),
    class_name: text(json["class_name"]),
    parent: maybeText(json["parent"]),
    parameters: count(json["parameters"]),
    file: maybeText(json["file"]),
    line: count(json["line"]),
    order: maybeNumber(json["order"]),
  }));
}

export function parseStack(value: unknown): T.StackFrame[] {
  return list(value, (json) => ({
    file: text(json["file"]),
    line: count(json["line"]),
    function: text(json["function"]),
    is_user: json["is_user"] === true,
    locals: list(json["locals"], (each) => ({
      name: text(each["name"]),
      type: text(each["type"]),
      text: text(each["text"]),
    })),
  }));
}

export function parseSource(value: unknown): T.SourceText {
  const json = object(value);
  return { file: text(json["file"]), first_line: count(json["first_line"]) || 1, lines: texts(json["lines"]) };
}

function parseTensorEntry(json: Json): T.TensorEntry {
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

export function parseTensors(value: unknown): T.TensorEntry[] {
  return list(value, parseTensorEntry);
}

export function parseBatch(value: unknown): T.BatchEntry[] {
  return list(value, (json) => ({ ...parseTensorEntry(json), role: json["role"] === "label" ? "label" : "input" }));
}

export function parseTensorView(value: unknown): T.TensorView {
  const json = object(value);
  return {
    ...parseLook(json),
    name: text(json["name"]),
    shape: numbers(json["shape"]),
    dtype: text(json["dtype"]),
    device: text(json["device"]),
    bytes: count(json["bytes"]),
    slice: text(json["slice"]),
    previous: json["previous"] ? parseLook(object(json["previous"])) : null,
    difference: json["difference"] ? parseLook(object(json["difference"])) : null,
    notes: texts(json["notes"]),
  };
}

function parseLook(json: Json): T.TensorLook {
  const histogram = json["histogram"] ? object(json["histogram"]) : null;
  const statistics = Object.entries(object(json["statistics"])).map(([name, value]) => [name, number(value)] as const);
  return {
    statistics: Object.fromEntries(statistics),
    histogram: histogram && parseHistogram(histogram),
    cells: json["cells"] ? parseMatrix(object(json["cells"])) : null,
  };
}

function parseHistogram(json: Json): T.LookHistogram | null {
  const [lower, upper, counts] = [json["lower"], json["upper"], json["counts"]].map(numbers) as number[][];
  if (!lower || !upper || !counts || lower.length !== counts.length || upper.length !== counts.length) return null;
  return { lower: Float64Array.from(lower), upper: Float64Array.from(upper), counts: Float64Array.from(counts) };
}

/** null when there are fewer values than the shape says. */
function parseMatrix(json: Json): T.Matrix | null {
  const [height = 0, width = 0] = numbers(json["shape"]);
  const values = Float64Array.from(numbers(json["values"]));
  if (!(height >= 0 && width >= 0) || values.length < height * width) return null;
  const [row = 0, rowStep = 1] = numbers(json["rows"]);
  const [column = 0, columnStep = 1] = numbers(json["columns"]);
  return { height, width, rows: [row, rowStep], columns: [column, columnStep], values };
}

export function parseHits(value: unknown): T.Hit[] {
  return list(value, (json) => ({
    number: count(json["number"]),
    step: count(json["step"]),
    place: parsePlace(json["place"]),
    watchpoint: maybeNumber(json["watchpoint"]),
    tensor: text(json["tensor"]),
    kind: text(json["kind"]),
    statistic: text(json["statistic"]),
    comparison: text(json["comparison"]),
    threshold: maybeNumber(json["threshold"]),
    actual: number(json["actual"]),
    advice: text(json["advice"]),
  }));
}
