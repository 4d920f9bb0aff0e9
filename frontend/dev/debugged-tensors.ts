/** Tensors of the made-up trainings that are paused: their names, their values, and as files. */

import { MODULES } from "./network";
import { hash, noise } from "./noise";

type Json = Record<string, unknown>;

export interface MadeTensor {
  readonly name: string;
  readonly kind: string;
  readonly of: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly module: string | null;
}

const BATCH = 16;

export const TENSORS: readonly MadeTensor[] = [
  { name: "batch:input", kind: "batch", of: "input", shape: [BATCH, 3, 32, 32], dtype: "float32", module: null },
  { name: "batch:tokens", kind: "batch", of: "tokens", shape: [BATCH, 24], dtype: "int64", module: null },
  { name: "label:target", kind: "label", of: "target", shape: [BATCH], dtype: "int64", module: null },
  { name: "loss:loss", kind: "loss", of: "loss", shape: [], dtype: "float32", module: null },
  ...MODULES.flatMap(({ name, shape, output }) => {
    const made = (kind: string, of: string, size: readonly number[]): MadeTensor => ({
      name: `${kind}:${of}`,
      kind,
      of,
      shape: size,
      dtype: "float32",
      module: name,
    });
    return [
      made("output", name, [BATCH, ...output.slice(1)]),
      made("gradient", `${name}.weight`, shape),
      made("weight", `${name}.weight`, shape),
      made("update", `${name}.weight`, shape),
      made("state", `${name}.weight/exp_avg`, shape),
    ];
  }),
];

export function entryOf(tensor: MadeTensor): Json {
  const bytes = sizeOf(tensor.shape) * (tensor.dtype === "int64" ? 8 : 4);
  return { ...tensor, device: "cuda:0", bytes };
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, each) => product * each, 1);
}

/** Value of one element; pictures are smooth, and one gradient has a few that are no numbers. */
function elementOf(tensor: MadeTensor, index: readonly number[], step: number): number {
  const most = tensor.kind === "label" ? 10 : 5000;
  if (tensor.dtype === "int64") return Math.floor(hash(tensor.name, step, ...index) * most);
  if (tensor.name === "batch:input") {
    const [picture = 0, channel = 0, row = 0, column = 0] = index;
    return Math.sin(row / (3 + picture)) + Math.cos(column / (2 + channel)) + 0.1 * noise(picture, row, column);
  }
  const isSick = tensor.name === "gradient:stages.2.0.conv1.weight" && (index[1] ?? 0) === 5;
  if (isSick && (index[0] ?? 0) % 3 === 0) return NaN;
  const size = { weight: 0.05, gradient: 2e-3, update: 4e-5, state: 1e-3 }[tensor.kind] ?? 1;
  const value = size * (noise(tensor.name, ...index, step) + noise(...index));
  return tensor.kind === "output" ? Math.max(0, value) : value;
}

interface Part {
  readonly from: number;
  readonly to: number;
  readonly step: number;
  readonly isOne: boolean;
}

/** As NumPy understands it, without negative numbers. Throws a sentence. */
function partsOf(text: string | null, shape: readonly number[]): Part[] {
  const given = (text ?? "")
    .replace(/[[\]\s]/g, "")
    .split(",")
    .filter((part) => part !== "");
  if (given.length > shape.length) throw new Error(`The tensor has only ${shape.length} dimensions.`);
  return shape.map((size, i) => {
    const part = given[i] ?? ":";
    if (!/^\d*(:\d*){0,2}$/.test(part)) throw new Error(`“${part}” is no part of a slice.`);
    const [first = "", last = "", stride = ""] = part.split(":");
    if (!part.includes(":")) return { from: Number(first), to: Number(first) + 1, step: 1, isOne: true };
    const to = Math.min(size, Number(last || size));
    return { from: Number(first || 0), to, step: Number(stride || 1), isOne: false };
  });
}

interface Sliced {
  readonly shape: number[];
  readonly values: Float64Array;
}

function sliced(tensor: MadeTensor, text: string | null, step: number): Sliced {
  const parts = partsOf(text, tensor.shape);
  const counts = parts.map((part) => Math.max(0, Math.ceil((part.to - part.from) / part.step)));
  const values = new Float64Array(sizeOf(counts));
  for (let i = 0; i < values.length; i++) {
    let rest = i;
    const index = counts.map(() => 0);
    for (let axis = counts.length - 1; axis >= 0; axis--) {
      const count = counts[axis] ?? 1;
      const part = parts[axis];
      index[axis] = (part?.from ?? 0) + (rest % count) * (part?.step ?? 1);
      rest = Math.floor(rest / count);
    }
    values[i] = elementOf(tensor, index, step);
  }
  return { shape: counts.filter((_, axis) => !parts[axis]?.isOne), values };
}

export function npyOf(tensor: MadeTensor, slice: string | null, step: number): Uint8Array {
  const { shape, values } = sliced(tensor, slice, step);
  const type = tensor.dtype === "int64" ? "<i8" : "<f4";
  const tuple = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${tuple}), }`.padEnd(117) + "\n";
  const body = type === "<i8" ? BigInt64Array.from(values, BigInt) : Float32Array.from(values);
  const file = new Uint8Array(10 + text.length + body.byteLength);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, text.length & 255, text.length >> 8]);
  file.set(new TextEncoder().encode(text), 10);
  file.set(new Uint8Array(body.buffer), 10 + text.length);
  return file;
}

/** As the verb `tensor` answers. */
export function viewOf(tensor: MadeTensor, slice: string | null, step: number, previous: boolean): Json {
  const parts = partsOf(slice, tensor.shape);
  const isCut = (part: Part, axis: number): boolean => !part.isOne && countOf(parts, axis) > 2;
  const cut = parts.map((part, axis) => (isCut(part, axis) ? "0" : textOf(part)));
  const text = tensor.shape.length === 0 ? "[]" : `[${cut.join(", ")}]`;
  const now = lookOf(sliced(tensor, text, step), tensor);
  const before = previous ? lookOf(sliced(tensor, text, step - 1), tensor) : null;
  return {
    ...entryOf(tensor),
    ...now,
    slice: text,
    previous: before,
    difference: before && lookOf(difference(sliced(tensor, text, step), sliced(tensor, text, step - 1)), tensor),
    notes: sizeOf(tensor.shape) > 4096 ? ["Every second value is shown."] : [],
  };
}

/** How many dimensions are left from this one on. */
function countOf(parts: readonly Part[], axis: number): number {
  return parts.slice(axis).filter((part) => !part.isOne).length;
}

function textOf(part: Part): string {
  return part.isOne ? String(part.from) : `${part.from}:${part.to}${part.step > 1 ? `:${part.step}` : ""}`;
}

function difference(a: Sliced, b: Sliced): Sliced {
  return { shape: a.shape, values: a.values.map((value, i) => value - (b.values[i] ?? NaN)) };
}

const BINS = 40;

function lookOf({ shape, values }: Sliced, tensor: MadeTensor): Json {
  const finite = values.filter(Number.isFinite);
  const [lower, upper] = [Math.min(...finite), Math.max(...finite)];
  const counts = new Array<number>(BINS).fill(0);
  for (const value of finite) {
    const bin = Math.min(BINS - 1, Math.floor(((value - lower) / (upper - lower || 1)) * BINS));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  const squares = finite.reduce((sum, value) => sum + value * value, 0);
  const statistics = {
    count: sizeOf(tensor.shape),
    nan: values.length - finite.length,
    pos_inf: 0,
    neg_inf: 0,
    zeros: finite.filter((value) => value === 0).length,
    min: lower,
    max: upper,
    mean,
    std: Math.sqrt(Math.max(0, squares / finite.length - mean * mean)),
    norm: Math.sqrt(squares),
  };
  const edge = (bin: number): number => lower + ((upper - lower) * bin) / BINS;
  const edges = { lower: counts.map((_, bin) => edge(bin)), upper: counts.map((_, bin) => edge(bin + 1)) };
  return { statistics, histogram: finite.length > 0 ? { ...edges, counts } : null, cells: cellsOf(shape, values) };
}

function cellsOf(shape: readonly number[], values: Float64Array): Json {
  const [width, height] = [shape.at(-1) ?? 1, shape.at(-2) ?? 1];
  const stride = Math.max(1, Math.ceil(Math.sqrt((width * height) / 4096)));
  const rows = Math.ceil(height / stride);
  const columns = Math.ceil(width / stride);
  const kept = Array.from({ length: rows * columns }, (_, i) => {
    const value = values[Math.floor(i / columns) * stride * width + (i % columns) * stride] ?? NaN;
    return Number.isFinite(value) ? value : "NaN";
  });
  return { shape: [rows, columns], rows: [0, stride], columns: [0, stride], values: kept };
}
