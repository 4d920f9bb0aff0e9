/** Memory of host and devices, from scalars by name to what adds up. */

import type { ScalarColumns } from "../wire/types";
import { lastKnown } from "./phases-join";

type Scalars = ReadonlyMap<string, ScalarColumns>;

export interface MemoryPart {
  readonly key: string;
  readonly title: string;
  readonly meaning: string;
  readonly bytes: Float64Array;
}

/** Parts that add up, over the rows of `rows`. */
export interface MemoryStack {
  readonly key: string;
  readonly title: string;
  readonly rows: ScalarColumns;
  readonly parts: readonly MemoryPart[];
  /** What there is at all; null: unknown. */
  readonly limit: number | null;
  /** A limit that is only a lower bound or an estimate says so. */
  readonly limitTitle: string;
  /** The greatest that was seen of all parts together. */
  readonly peak: number;
}

const HOST = /^memory\/(rss|children_rss|host_available)$/;
const DEVICE = /^(?:memory\/)?(gpu|cuda)(\d+)\//;

/** Which of a run's scalars tell of memory and load. */
export function memoryNames(names: readonly string[]): string[] {
  return names.filter((name) => name.startsWith("memory/") || DEVICE.test(name));
}

/** Numbers of the devices of a kind, ascending. */
export function deviceNumbers(names: readonly string[], kind: "gpu" | "cuda"): number[] {
  const found = names.flatMap((name) => {
    const match = DEVICE.exec(name);
    return match?.[1] === kind ? [Number(match[2])] : [];
  });
  return [...new Set(found)].sort((a, b) => a - b);
}

/** Everything that can be stacked, the host first. */
export function memoryStacks(scalars: Scalars): MemoryStack[] {
  const names = [...scalars.keys()];
  const stacks = [
    hostStack(scalars),
    ...deviceNumbers(names, "gpu").map((number) => gpuStack(scalars, number)),
    ...deviceNumbers(names, "cuda").map((number) => allocatorStack(scalars, number)),
  ];
  return stacks.filter((stack): stack is MemoryStack => stack !== null);
}

function hostStack(scalars: Scalars): MemoryStack | null {
  const rows = scalars.get("memory/rss");
  if (!rows || rows.step.length === 0) return null;
  const children = lastKnown(rows, scalars.get("memory/children_rss"));
  const available = lastKnown(rows, scalars.get("memory/host_available"));
  const parts = [
    part("rss", "This process", "resident memory (RSS) of the training process", rows.mean),
    part(
      "children",
      "Child processes",
      "resident memory of loader workers and other child processes; shared pages count once per process",
      children,
    ),
  ];
  const kept = parts.filter(({ bytes }) => bytes.some((value) => value > 0));
  const used = total(kept);
  // Others on the host take memory too, so there is at least so much of it.
  const limit = greatest(available.map((value, row) => value + (used[row] ?? 0)));
  return stack("host", "Host", rows, kept, limit, "in use here + available");
}

function gpuStack(scalars: Scalars, number: number): MemoryStack | null {
  const prefix = `memory/gpu${number}`;
  const rows = scalars.get(`${prefix}/used`) ?? scalars.get(`${prefix}/process`);
  if (!rows || rows.step.length === 0) return null;
  const own = lastKnown(rows, scalars.get(`${prefix}/process`));
  const children = lastKnown(rows, scalars.get(`${prefix}/children`));
  const others = rows.mean.map((used, row) => Math.max(used - zero(own[row]) - zero(children[row]), 0));
  const isSplit = own.some(Number.isFinite) || children.some(Number.isFinite);
  const parts = [
    part("process", "This process", "used by the training process, as the driver counts it", own),
    part("children", "Child processes", "used by its child processes", children),
    part(
      "others",
      isSplit ? "Others and driver" : "Used",
      isSplit
        ? "other processes on the device, and the driver itself"
        : "used by all processes on the device; the driver does not report it per process",
      others,
    ),
  ];
  const kept = parts.filter(({ bytes }) => bytes.some((value) => value > 0));
  return stack(`gpu${number}`, `GPU ${number}`, rows, kept, lastOf(scalars.get(`${prefix}/total`)), "on the device");
}

function allocatorStack(scalars: Scalars, number: number): MemoryStack | null {
  const prefix = `memory/cuda${number}`;
  const rows = scalars.get(`${prefix}/allocated`);
  if (!rows || rows.step.length === 0) return null;
  const reserved = lastKnown(rows, scalars.get(`${prefix}/reserved`));
  const cached = reserved.map((bytes, row) => Math.max(bytes - (rows.mean[row] ?? 0), 0));
  const parts = [
    part("allocated", "In tensors", "held by live tensors", rows.mean),
    part("cached", "Reserved, free", "reserved by torch's allocator and not in use", cached),
  ];
  const peak = lastOf(scalars.get(`${prefix}/peak_allocated`));
  return stack(`cuda${number}`, `torch on cuda:${number}`, rows, parts, peak, "peak in tensors");
}

function part(key: string, title: string, meaning: string, bytes: Float64Array): MemoryPart {
  return { key, title, meaning, bytes };
}

function stack(
  key: string,
  title: string,
  rows: ScalarColumns,
  parts: readonly MemoryPart[],
  limit: number | null,
  limitTitle: string,
): MemoryStack {
  // Of a bucket the mean is drawn, but its greatest value counts.
  const highest = total(parts).map((sum, row) => sum + zero((rows.max[row] ?? NaN) - (rows.mean[row] ?? NaN)));
  return { key, title, rows, parts, limit, limitTitle, peak: greatest(highest) ?? 0 };
}

function total(parts: readonly MemoryPart[]): Float64Array {
  const length = parts[0]?.bytes.length ?? 0;
  return Float64Array.from({ length }, (_, row) => parts.reduce((sum, { bytes }) => sum + zero(bytes[row]), 0));
}

function zero(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) ? value : 0;
}

function greatest(values: Float64Array): number | null {
  const most = values.reduce((high, value) => (value > high ? value : high), -Infinity);
  return Number.isFinite(most) ? most : null;
}

function lastOf(columns: ScalarColumns | undefined): number | null {
  const value = columns?.mean.at(-1);
  return value !== undefined && Number.isFinite(value) && value > 0 ? value : null;
}

/** In words how near the limit a stack is; null where nothing needs to be said. */
export function memoryReading(found: MemoryStack): string | null {
  if (found.limit === null || found.key.startsWith("cuda")) return null;
  const share = found.peak / found.limit;
  if (share < 0.9) return null;
  return `${found.title} peaked at ${Math.round(share * 100)} % of its memory: a larger batch may not fit.`;
}

/** Whether a name is drawn in a stack, so that it need not be shown by itself. */
export function isStacked(name: string): boolean {
  return (
    HOST.test(name) || /^memory\/gpu\d+\/(used|total|process|children)$/.test(name) || /^memory\/cuda\d+\//.test(name)
  );
}
