/** Answers to the queries of the `columns` route, in the binary form that the server gives them. */

import { MODULES, normalOf, seriesNames, elementsOf, statisticOf } from "./network";
import { processColumns } from "./pulse";
import { scalarAt, scalarNames, stepsOf, type MadeRun } from "./runs";

type Column = Float64Array | Float32Array | Int32Array;
type Json = Record<string, unknown>;
interface Answer {
  readonly head: Json;
  readonly columns: Record<string, Column>;
}

const STATISTICS = [
  "count",
  "mean",
  "std",
  "norm",
  "rms",
  "min",
  "max",
  "abs_max",
  "zeros",
  "nan",
  "pos_inf",
  "neg_inf",
  "nonfinite",
  "median",
  "p01",
  "p99",
  "inactive_units",
  "ratio",
];
const NORMAL_QUANTILES = [-4.2, -2.33, -1.64, -0.674, 0, 0.674, 1.64, 2.33, 4.2];
const LOOKS_A_BUCKET = 12;

export function answerAll(queries: readonly Json[], runs: readonly MadeRun[], live: boolean): Uint8Array {
  return encode(queries.map((query) => answer(query, runs, live)));
}

function answer(query: Json, runs: readonly MadeRun[], live: boolean): Answer {
  const run = runs.find((each) => each.name === query["run"]);
  if (!run) return { head: { error: `There is no run ${String(query["run"])}.` }, columns: {} };
  const newest = stepsOf(run, live) - 1;
  const first = Math.max(0, Number(query["first"] ?? 0));
  const last = Math.min(newest, Number(query["last"] ?? newest));
  const made = { scalars, heat, bands, histogram, histograms, table, processes }[String(query["what"])];
  if (!made) return { head: { error: `There is no such query: ${String(query["what"])}.` }, columns: {} };
  const { head, columns } = made(run, query, first, last);
  return { head: { what: query["what"], run: run.name, version: newest + 1, ...head }, columns };
}

function buckets(first: number, last: number, most: number): [number, number][] {
  const size = 2 ** Math.max(0, Math.ceil(Math.log2((last - first + 1) / most)));
  const found: [number, number][] = [];
  for (let at = Math.floor(first / size) * size; at <= last; at += size)
    found.push([Math.max(at, first), Math.min(at + size - 1, last)]);
  return found;
}

function scalars(run: MadeRun, query: Json, first: number, last: number): Answer {
  const rows = buckets(first, last, Number(query["points"] ?? 1000));
  const columns: Record<string, Column> = {};
  const known = scalarNames(run);
  for (const name of (query["names"] as string[]).filter((each) => known.includes(each))) {
    const kept = rows.map(([from, to]) => bucket(run, name, from, to)).filter((row) => (row[9] ?? 0) > 0);
    ["step", "last", "time", "samples", "mean", "min", "max", "bad", "end", "count"].forEach((part, index) => {
      columns[`${name}\u0000${part}`] = Float64Array.from(kept, (row) => row[index] ?? NaN);
    });
  }
  return { head: { level: rows.length > 1 ? Math.log2((rows[1]?.[0] ?? 1) - (rows[0]?.[0] ?? 0)) : 0 }, columns };
}

function bucket(run: MadeRun, name: string, from: number, to: number): number[] {
  const stride = Math.max(1, Math.floor((to - from + 1) / LOOKS_A_BUCKET));
  let [sum, low, high, good, bad] = [0, Infinity, -Infinity, 0, 0];
  for (let step = from; step <= to; step += stride) {
    const value = scalarAt(run, name, step);
    if (!Number.isFinite(value)) {
      bad += name === "scalar/validation_loss" ? 0 : stride;
      continue;
    }
    [sum, low, high, good] = [sum + value, Math.min(low, value), Math.max(high, value), good + 1];
  }
  const [mean, none] = [good ? sum / good : NaN, good === 0];
  const time = run.started + from * run.seconds;
  const count = none && bad === 0 ? 0 : to - from + 1;
  return [
    from,
    to,
    time,
    (to + 1) * run.batch,
    mean,
    none ? NaN : low,
    none ? NaN : high,
    bad,
    bad ? NaN : mean,
    count,
  ];
}

function heat(run: MadeRun, query: Json, first: number, last: number): Answer {
  const kind = String(query["kind"]);
  const pattern = query["pattern"] ? new RegExp(String(query["pattern"])) : null;
  const names = seriesNames(run, kind);
  const kept = names.filter((name) => !pattern || pattern.test(name));
  const columns = buckets(first, last, Number(query["columns"] ?? 400));
  const values = new Float32Array(kept.length * columns.length);
  kept.forEach((name, row) => {
    columns.forEach(([from], column) => {
      values[row * columns.length + column] = statisticOf(
        String(query["statistic"]),
        run,
        kind,
        names.indexOf(name),
        from,
      );
    });
  });
  return { head: { names: kept, shape: [kept.length, columns.length] }, columns: { ...edges(columns), values } };
}

function edges(rows: readonly (readonly [number, number])[]): { first: Float64Array; last: Float64Array } {
  return { first: Float64Array.from(rows, (row) => row[0]), last: Float64Array.from(rows, (row) => row[1]) };
}

function bands(run: MadeRun, query: Json, first: number, last: number): Answer {
  const [kind, index] = place(run, query);
  const rows = buckets(first, last, Number(query["columns"] ?? 400));
  const quantiles = new Float64Array(rows.length * NORMAL_QUANTILES.length);
  rows.forEach(([from], row) => {
    const { mean, std } = normalOf(run, kind, index, from);
    NORMAL_QUANTILES.forEach((place, column) => {
      const value = mean + std * place;
      quantiles[row * NORMAL_QUANTILES.length + column] = kind === "activation" ? Math.max(0, value) : value;
    });
  });
  const columns: Record<string, Column> = { ...edges(rows), quantiles };
  for (const name of STATISTICS) {
    columns[`statistics\u0000${name}`] = Float64Array.from(rows, ([from]) => statisticOf(name, run, kind, index, from));
  }
  return { head: {}, columns };
}

function place(run: MadeRun, query: Json): [kind: string, index: number] {
  const kind = String(query["kind"]);
  return [kind, Math.max(0, seriesNames(run, kind).indexOf(String(query["name"])))];
}

/** Bins of the sketch: eight in each power of two. */
function bins(
  run: MadeRun,
  kind: string,
  index: number,
  step: number,
): [lower: number, upper: number, count: number][] {
  const { mean, std } = normalOf(run, kind, index, step);
  const found: [number, number, number][] = [];
  const total = elementsOf(kind, index);
  const add = (lower: number, upper: number): void => {
    const middle = (lower + upper) / 2;
    const density = Math.exp(-((middle - mean) ** 2) / (2 * std * std)) / (std * 2.5066);
    const count = Math.round(density * (upper - lower) * total);
    if (count > 0 && !(kind === "activation" && upper <= 0)) found.push([lower, upper, count]);
  };
  const edge = (power: number): number =>
    2 ** Math.floor(power / 8) * (1 + (power % 8 < 0 ? (power % 8) + 8 : power % 8) / 8);
  const top = Math.ceil(Math.log2(Math.abs(mean) + 5 * std) * 8);
  for (let power = top; power > top - 100; power--) add(-edge(power), -edge(power - 1));
  if (kind === "activation") found.push([0, 0, Math.round(0.42 * total)]);
  for (let power = top - 100; power < top; power++) add(edge(power), edge(power + 1));
  return found;
}

function histogram(run: MadeRun, query: Json, first: number, last: number): Answer {
  const [kind, index] = place(run, query);
  const rows = bins(run, kind, index, last);
  const statistics = Object.fromEntries(
    STATISTICS.map((name) => [name, finite(statisticOf(name, run, kind, index, last))]),
  );
  const head = {
    first,
    last,
    merged: Math.max(1, Math.floor((last - first) / 10)),
    statistics,
    nan: statisticOf("nan", run, kind, index, last),
    pos_inf: 0,
    neg_inf: 0,
    zeros: Math.round(statisticOf("zeros", run, kind, index, last) * elementsOf(kind, index)),
    units_active: kind === "activation" ? Math.round((MODULES[index]?.output[1] ?? 0) * 0.8) : null,
    units: kind === "activation" ? (MODULES[index]?.output[1] ?? 0) : null,
  };
  return { head, columns: binColumns(rows) };
}

function finite(value: number): number | string {
  return Number.isFinite(value) ? value : "NaN";
}

function binColumns(rows: readonly (readonly [number, number, number])[]): Record<string, Column> {
  const part = (index: 0 | 1 | 2): Float64Array => Float64Array.from(rows, (row) => row[index]);
  return { lower: part(0), upper: part(1), counts: part(2) };
}

function histograms(run: MadeRun, query: Json, first: number, last: number): Answer {
  const [kind, index] = place(run, query);
  const rows = buckets(first, last, Number(query["columns"] ?? 48));
  const all = rows.map(([from]) => bins(run, kind, index, from));
  const offsets = new Int32Array(rows.length + 1);
  all.forEach((each, row) => (offsets[row + 1] = (offsets[row] ?? 0) + each.length));
  const nonfinite = Float64Array.from(rows, ([from]) => statisticOf("nan", run, kind, index, from));
  return { head: {}, columns: { ...edges(rows), offsets, ...binColumns(all.flat()), nonfinite } };
}

function table(run: MadeRun, query: Json, _first: number, newest: number): Answer {
  const kind = String(query["kind"]);
  const step = Math.min(newest, Number(query["step"] ?? newest));
  const names = seriesNames(run, kind);
  const columns: Record<string, Column> = { steps: Float64Array.from(names, () => step) };
  for (const name of STATISTICS) {
    columns[`statistics\u0000${name}`] = Float64Array.from(names, (_, index) =>
      statisticOf(name, run, kind, index, step),
    );
  }
  return { head: { names }, columns };
}

function processes(run: MadeRun, _query: Json, _first: number, newest: number): Answer {
  return { head: {}, columns: processColumns(run, run.started + newest * run.seconds) };
}

/** Header and arrays in one body: see `columns` in the server's http_api.md. */
function encode(answers: readonly Answer[]): Uint8Array {
  const arrays: Column[] = [];
  let offset = 0;
  const headers = answers.map(({ head, columns }) => {
    const places = Object.entries(columns).map(([path, column]) => {
      const type = column instanceof Float64Array ? "f64" : column instanceof Float32Array ? "f32" : "i32";
      const place = [path, [type, offset, column.length]];
      arrays.push(column);
      offset += Math.ceil(column.byteLength / 8) * 8;
      return place;
    });
    return { ...head, columns: Object.fromEntries(places) };
  });
  let text = JSON.stringify({ answers: headers });
  const bytes = new TextEncoder().encode(text).length;
  text += " ".repeat((8 - ((bytes + 4) % 8)) % 8);
  const header = new TextEncoder().encode(text);
  const body = new Uint8Array(4 + header.length + offset);
  new DataView(body.buffer).setUint32(0, header.length, true);
  body.set(header, 4);
  let at = 4 + header.length;
  for (const array of arrays) {
    body.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at += Math.ceil(array.byteLength / 8) * 8;
  }
  return body;
}
