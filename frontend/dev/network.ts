/** The made-up network: its modules, and what is recorded of them. */

import { hash, noise } from "./noise";
import type { MadeRun } from "./runs";

export const KINDS = ["weight", "gradient", "update", "activation"] as const;

export interface MadeModule {
  readonly name: string;
  readonly class_name: string;
  readonly shape: readonly number[];
  readonly output: readonly number[];
}

export const MODULES: readonly MadeModule[] = makeModules(4);

function makeModules(stages: number): MadeModule[] {
  const found: MadeModule[] = [
    { name: "stem.conv", class_name: "Conv2d", shape: [64, 3, 7, 7], output: [128, 64, 56, 56] },
    { name: "stem.norm", class_name: "BatchNorm2d", shape: [64], output: [128, 64, 56, 56] },
  ];
  for (let stage = 0; stage < stages; stage++) {
    const [width, size] = [64 * 2 ** stage, 56 / 2 ** stage];
    for (let block = 0; block < 2; block++) {
      for (const part of ["conv1", "conv2"]) {
        found.push({
          name: `stages.${stage}.${block}.${part}`,
          class_name: "Conv2d",
          shape: [width, width, 3, 3],
          output: [128, width, size, size],
        });
      }
    }
  }
  found.push({ name: "head", class_name: "Linear", shape: [10, 512], output: [128, 10] });
  return found;
}

export function seriesNames(run: MadeRun, kind: string): string[] {
  if (run.kind === "summary") return kind === "tensor" ? MODULES.map((module) => `weights/${module.name}`) : [];
  if (kind === "tensor") return ["attention/0"];
  return MODULES.map((module) => (kind === "activation" ? module.name : `${module.name}.weight`));
}

/** Mean and deviation of a tensor at a step: what all its statistics are made from. */
export function normalOf(run: MadeRun, kind: string, index: number, step: number): { mean: number; std: number } {
  const depth = index / MODULES.length;
  const calm = 1 / (1 + step / 6000);
  const fading = run.illness === "vanishing" ? 10 ** (-7 * (1 - depth)) : 1;
  const blown = run.illness === "nan" ? 1 + Math.max(0, step - 11000) ** 2 / 4e4 : 1;
  const wobble = 1 + 0.06 * noise(run.name, kind, index, Math.floor(step / 10));
  const std = { weight: 0.05 / (0.4 + depth), gradient: 2e-3 * calm * fading * blown, update: 4e-5 * fading * blown }[
    kind
  ];
  return {
    mean: kind === "activation" ? 0.35 * wobble : 0.001 * noise(kind, index),
    std: (std ?? 0.8) * Math.abs(wobble),
  };
}

export function elementsOf(kind: string, index: number): number {
  const module = MODULES[index % MODULES.length];
  const shape = (kind === "activation" ? module?.output : module?.shape) ?? [1];
  return shape.reduce((product, size) => product * size, 1);
}

export function statisticOf(name: string, run: MadeRun, kind: string, index: number, step: number): number {
  const { mean, std } = normalOf(run, kind, index, step);
  const count = elementsOf(kind, index);
  const rms = Math.hypot(mean, std);
  const broken = run.illness === "nan" && step > 12910 && kind !== "weight";
  switch (name) {
    case "count":
      return count;
    case "mean":
      return mean;
    case "std":
      return std;
    case "rms":
      return rms;
    case "norm":
      return rms * Math.sqrt(count);
    case "min":
      return kind === "activation" ? 0 : mean - 4 * std;
    case "max":
      return mean + 4.2 * std;
    case "abs_max":
      return Math.abs(mean) + 4.2 * std;
    case "zeros":
      return kind === "activation" ? 0.42 + 0.2 * hash(index, "zero") : 0;
    case "nan":
      return broken ? count / 2 : 0;
    case "nonfinite":
      return broken ? 0.5 : 0;
    case "pos_inf":
    case "neg_inf":
      return 0;
    case "median":
      return mean;
    case "p01":
      return mean - 2.33 * std;
    case "p99":
      return mean + 2.33 * std;
    case "inactive_units":
      return kind === "activation" ? 0.3 * hash(index, "units") : NaN;
    case "ratio":
      return kind === "update" ? rms / normalOf(run, "weight", index, step).std : NaN;
    default:
      return NaN;
  }
}

export function graphOf(): Record<string, unknown> {
  const names = new Set<string>(["ResNet"]);
  for (const module of MODULES) {
    const parts = module.name.split(".");
    for (let depth = 1; depth <= parts.length; depth++) names.add(parts.slice(0, depth).join("."));
  }
  const ordered = [...names];
  const nodes = ordered.map((name, order) => {
    const module = MODULES.find((each) => each.name === name);
    const below = MODULES.filter((each) => name === "ResNet" || each.name === name || each.name.startsWith(`${name}.`));
    const parameters = below.reduce((sum, each) => sum + each.shape.reduce((product, size) => product * size, 1), 0);
    const tensor = (shape: readonly number[]): unknown => ({ shape, dtype: "float32" });
    return {
      name,
      class_name: module?.class_name ?? (name === "ResNet" ? "ResNet" : "Sequential"),
      parent: name === "ResNet" ? null : name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "ResNet",
      parameters,
      trainable: parameters,
      own_parameters: module ? [{ name: "weight", shape: module.shape, dtype: "float32", trainable: true }] : [],
      source_file: "examples/resnet/model.py",
      source_line: 20 + order * 4,
      inputs: [tensor([128, 3, 224, 224])],
      outputs: [tensor(module?.output ?? [128, 10])],
      calls: 1,
      order,
    };
  });
  const edges = MODULES.slice(1).map((module, index) => ({
    source: MODULES[index]?.name,
    target: module.name,
    output: 0,
    input: 0,
    shape: MODULES[index]?.output,
    dtype: "float32",
  }));
  return { nodes, edges };
}
