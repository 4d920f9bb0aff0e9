/** What a scalar's name tells: its group, its title and how its values are written. */

import { formatBytes, formatCount, formatNumber, formatPercent, formatSeconds } from "./format";

export interface ScalarGroup {
  readonly title: string;
  readonly names: readonly string[];
}

/** What the checks go by; closed until somebody wants to see it. */
export const PROBES = "Probes";

const GROUPS: readonly (readonly [title: string, belongs: RegExp])[] = [
  ["Loss and metrics", /^(loss$|scalar\/)/],
  ["Optimization", /^(gradient_norm|nonfinite_|lr\/)/],
  ["Time and batches", /^(time\/|batch_)/],
  ["Memory and devices", /^(memory|gpu\d+)\//],
  ["Monitoring", /^(monitor|writer)\//],
  [PROBES, /^probe\//],
];

/** Non-empty groups, known ones first, what else there is by its first path segment. */
export function groupScalars(names: readonly string[]): ScalarGroup[] {
  const found = new Map<string, string[]>(GROUPS.map(([title]) => [title, []]));
  for (const name of names) {
    const title = GROUPS.find(([, belongs]) => belongs.test(name))?.[0] ?? folderOf(name);
    found.set(title, [...(found.get(title) ?? []), name]);
  }
  return [...found].filter(([, members]) => members.length > 0).map(([title, members]) => ({ title, names: members }));
}

function folderOf(name: string): string {
  return name.includes("/") ? name.slice(0, name.indexOf("/")) : "Scalars";
}

const TITLES: ReadonlyMap<string, string> = new Map([
  ["loss", "Loss"],
  ["gradient_norm", "Gradient norm"],
  ["nonfinite_gradients", "Non-finite gradient values"],
  ["batch_size", "Batch size"],
  ["time/step", "Step"],
  ["time/data", "Waiting for data"],
  ["time/forward", "Forward"],
  ["time/backward", "Backward"],
  ["time/optimizer", "Optimizer"],
  ["memory/rss", "Memory of this process"],
  ["memory/children_rss", "Memory of child processes"],
  ["memory/children_count", "Number of child processes"],
  ["memory/pss", "PSS of this process"],
  ["memory/uss", "USS of this process"],
  ["memory/children_pss", "PSS of child processes"],
  ["memory/host_available", "Host memory available"],
  ["monitor/overhead", "Cost of monitoring"],
  ["monitor/every", "Steps between samples"],
  ["writer/dropped_steps", "Steps dropped"],
  ["writer/dropped_samples", "Samples dropped"],
]);

export function titleOf(name: string): string {
  return TITLES.get(name) ?? PATTERNS.reduce((title, [from, to]) => title.replace(from, to), name);
}

const PATTERNS: readonly (readonly [from: RegExp, to: string])[] = [
  [/^(scalar|probe)\//, ""],
  [/^lr\/0$/, "Learning rate"],
  [/^lr\/(\d+)$/, "Learning rate of group $1"],
  [/^memory\/gpu(\d+)\/process$/, "GPU $1: used by this process"],
  [/^memory\/gpu(\d+)\/children$/, "GPU $1: used by child processes"],
  [/^memory\/gpu(\d+)\/(.*)$/, "GPU $1: $2"],
  [/^memory\/cuda(\d+)\/(.*)$/, "GPU $1: $2 by torch"],
  [/^gpu(\d+)\/utilization$/, "GPU $1: utilization in %"],
  [/^memory\/(.*)$/, "Memory: $1"],
];

export function isBytes(name: string): boolean {
  return name.startsWith("memory/") && !/count$|utilization$/.test(name);
}

/** How values of this scalar are written. */
export function formatterOf(name: string): (value: number) => string {
  if (name.startsWith("time/")) return formatSeconds;
  if (isBytes(name)) return formatBytes;
  if (name === "monitor/overhead") return formatPercent;
  if (/^(batch_size|nonfinite_|writer\/)/.test(name)) return formatCount;
  return formatNumber;
}
