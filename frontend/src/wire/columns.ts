/** The binary body of the `columns` route: a JSON header and typed arrays that views look into without copying. */

import { number, text } from "./json";
import type { Answer, Histogram, ScalarColumns } from "./types";

type Column = Float64Array | Float32Array | Int32Array | Uint8Array;
type Json = Readonly<Record<string, unknown>>;

const SCALAR_COLUMNS = ["step", "last", "time", "samples", "mean", "min", "max", "bad", "end", "count"] as const;

export class WireError extends Error {}

/** One answer for each query, in their order. Throws WireError when the body is not what the route promises. */
export function decodeColumns(body: ArrayBuffer): Answer[] {
  const view = new DataView(body);
  if (body.byteLength < 4) throw new WireError("The server's response is incomplete.");
  const length = view.getUint32(0, true);
  const start = 4 + length;
  if (start > body.byteLength) throw new WireError("The server's response is incomplete.");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, length))) as { answers: Json[] };
  return header.answers.map((answer) => decodeAnswer(answer, body, start));
}

function decodeAnswer(answer: Json, body: ArrayBuffer, start: number): Answer {
  if (typeof answer["error"] === "string") return { what: "failed", error: answer["error"] };
  const columns = new Map<string, Column>();
  for (const [path, place] of Object.entries((answer["columns"] ?? {}) as Record<string, [string, number, number]>)) {
    columns.set(path, column(place, body, start));
  }
  const head = { run: text(answer["run"]), version: number(answer["version"]) };
  switch (answer["what"]) {
    case "scalars":
      return { ...head, what: "scalars", level: number(answer["level"]), scalars: scalars(columns) };
    case "heat":
      return {
        ...head,
        what: "heat",
        names: texts(answer["names"]),
        first: f64(columns, "first"),
        last: f64(columns, "last"),
        values: f32(columns, "values"),
      };
    case "bands":
      return {
        ...head,
        what: "bands",
        first: f64(columns, "first"),
        last: f64(columns, "last"),
        quantiles: f64(columns, "quantiles"),
        statistics: statistics(columns),
      };
    case "histogram":
      return { ...head, what: "histogram", histogram: histogram(answer, columns) };
    case "histograms":
      return {
        ...head,
        what: "histograms",
        first: f64(columns, "first"),
        last: f64(columns, "last"),
        offsets: i32(columns, "offsets"),
        lower: f64(columns, "lower"),
        upper: f64(columns, "upper"),
        counts: f64(columns, "counts"),
        nonfinite: f64(columns, "nonfinite"),
      };
    case "table":
      return {
        ...head,
        what: "table",
        names: texts(answer["names"]),
        steps: f64(columns, "steps"),
        statistics: statistics(columns),
      };
    case "processes":
      return {
        ...head,
        what: "processes",
        time: f64(columns, "time"),
        tree_bytes: f64(columns, "tree_bytes"),
        most_bytes: f64(columns, "most_bytes"),
        cpu_share: f64(columns, "cpu_share"),
        processes: f64(columns, "processes"),
      };
    default:
      throw new WireError("The server sent a response that this page does not understand. Reload the page.");
  }
}

function column([type, offset, length]: [string, number, number], body: ArrayBuffer, start: number): Column {
  const size = { f64: 8, f32: 4, i32: 4, u8: 1 }[type] ?? 8;
  // A view needs an aligned start; the server pads the header, but a proxy owes us nothing.
  const aligned = (start + offset) % size === 0;
  const bytes = aligned ? body : body.slice(start + offset, start + offset + length * size);
  const at = aligned ? start + offset : 0;
  if (at + length * size > bytes.byteLength) throw new WireError("The server's response is incomplete.");
  if (type === "f64") return new Float64Array(bytes, at, length);
  if (type === "f32") return new Float32Array(bytes, at, length);
  if (type === "i32") return new Int32Array(bytes, at, length);
  return new Uint8Array(bytes, at, length);
}

function f64(columns: ReadonlyMap<string, Column>, path: string): Float64Array {
  const found = columns.get(path);
  return found instanceof Float64Array ? found : new Float64Array(found ?? []);
}

function f32(columns: ReadonlyMap<string, Column>, path: string): Float32Array {
  const found = columns.get(path);
  return found instanceof Float32Array ? found : new Float32Array(found ?? []);
}

function i32(columns: ReadonlyMap<string, Column>, path: string): Int32Array {
  const found = columns.get(path);
  return found instanceof Int32Array ? found : new Int32Array(found ?? []);
}

function scalars(columns: ReadonlyMap<string, Column>): ReadonlyMap<string, ScalarColumns> {
  const names = [...columns.keys()].filter((path) => path.endsWith("\u0000step")).map((path) => path.slice(0, -5));
  return new Map(
    names.map((name) => {
      const of = Object.fromEntries(SCALAR_COLUMNS.map((part) => [part, f64(columns, `${name}\u0000${part}`)]));
      return [name, of as unknown as ScalarColumns];
    }),
  );
}

function statistics(columns: ReadonlyMap<string, Column>): ReadonlyMap<string, Float64Array> {
  const prefix = "statistics\u0000";
  const names = [...columns.keys()].filter((path) => path.startsWith(prefix));
  return new Map(names.map((path) => [path.slice(prefix.length), f64(columns, path)]));
}

function histogram(answer: Json, columns: ReadonlyMap<string, Column>): Histogram | null {
  if (!columns.has("counts")) return null;
  const count = (name: string): number => number(answer[name]);
  const whole = (name: string): number | null => (answer[name] == null ? null : number(answer[name]));
  return {
    first: count("first"),
    last: count("last"),
    merged: count("merged"),
    statistics: new Map(Object.entries((answer["statistics"] ?? {}) as Json).map(([name, of]) => [name, number(of)])),
    lower: f64(columns, "lower"),
    upper: f64(columns, "upper"),
    counts: f64(columns, "counts"),
    nan: count("nan"),
    pos_inf: count("pos_inf"),
    neg_inf: count("neg_inf"),
    zeros: count("zeros"),
    units_active: whole("units_active"),
    units: whole("units"),
  };
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(text) : [];
}
