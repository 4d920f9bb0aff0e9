/** From JSON to the types of debugger-types.ts: what debugger-table.ts does not parse by itself. */

import { number, text } from "./json";
import { count, list, maybe, maybeText, numbers, object, texts, type Json } from "./fields";
import * as table from "./debugger-table";
import type * as T from "./debugger-types";

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

function parseEntry(value: unknown): T.DebuggerEntry | null {
  const json = object(value);
  const key = maybeText(json["key"]);
  if (key === null) return null;
  return {
    key,
    session: parseFacts(json["session"]),
    state: parseState(json["state"]),
    holder: maybe(json["holder"], parseHolder),
    clients: count(json["clients"]),
    is_connected: json["is_connected"] !== false,
  };
}

function parseHolder(value: unknown): T.Holder {
  const json = object(value);
  return { client: text(json["client"]), label: text(json["label"]) };
}

function parseFacts(value: unknown): T.SessionFacts {
  const { run, run_dir, ...facts } = table.parseDebuggedSession(value);
  return { ...facts, run: run.join("/") };
}

/** Also of an answer that is a state. */
export function parseState(value: unknown): T.DebuggerState {
  return table.parseDebuggerState(value);
}

export function parsePresets(value: unknown): T.Preset[] {
  return list(value, table.parsePreset);
}

export function parseRates(value: unknown): T.LearningRate[] {
  return list(value, table.parseLearningRate);
}

export function parseModules(value: unknown): T.DebuggedModule[] {
  return list(value, table.parseDebuggedModule);
}

export function parseStack(value: unknown): T.StackFrame[] {
  return list(value, table.parseStackFrame);
}

export function parseSource(value: unknown): T.SourceText {
  return table.parseSourceText(value);
}

export function parseTensors(value: unknown): T.TensorEntry[] {
  return list(value, table.parseTensorEntry);
}

export function parseBatch(value: unknown): T.BatchEntry[] {
  return list(value, table.parseBatchEntry);
}

export function parseHits(value: unknown): T.Hit[] {
  return list(value, table.parseHit);
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
