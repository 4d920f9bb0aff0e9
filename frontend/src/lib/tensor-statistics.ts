/** The statistics of tensors: what they are called, what they mean, and how they want to be drawn. */

import type { Kind } from "../wire/types";

/** log: magnitudes; share: 0 to 1; signed: both sides of zero. */
export type StatisticScale = "log" | "share" | "signed";

export interface TensorStatistic {
  /** As on the wire. */
  readonly name: string;
  readonly label: string;
  /** What the number is, in one sentence. */
  readonly meaning: string;
  readonly scale: StatisticScale;
  /** Kinds that have it; absent: all. */
  readonly kinds?: readonly Kind[];
}

export const KINDS: readonly { readonly kind: Kind; readonly label: string; readonly setting: string }[] = [
  { kind: "weight", label: "Weights", setting: "weights=True" },
  { kind: "gradient", label: "Gradients", setting: "gradients=True" },
  { kind: "update", label: "Updates", setting: "updates=True" },
  { kind: "activation", label: "Activations", setting: "activations=True" },
  { kind: "tensor", label: "Tensors", setting: "" },
];

export const TENSOR_STATISTICS: readonly TensorStatistic[] = [
  { name: "norm", label: "norm", meaning: "Euclidean norm: root of the sum of squares", scale: "log" },
  { name: "rms", label: "rms", meaning: "root of the mean square: the typical magnitude", scale: "log" },
  { name: "mean", label: "mean", meaning: "mean of the finite values", scale: "signed" },
  { name: "std", label: "std", meaning: "spread of the finite values around their mean", scale: "log" },
  { name: "min", label: "min", meaning: "smallest finite value", scale: "signed" },
  { name: "max", label: "max", meaning: "largest finite value", scale: "signed" },
  { name: "abs_max", label: "abs max", meaning: "largest magnitude", scale: "log" },
  { name: "zeros", label: "zeros", meaning: "share of values that are exactly zero", scale: "share" },
  { name: "nonfinite", label: "non-finite", meaning: "share of values that are NaN or infinite", scale: "share" },
  {
    name: "ratio",
    label: "update ÷ weight",
    meaning: "norm of the update divided by the norm of the weight it changes; about 0.001 is typical",
    scale: "log",
    kinds: ["update"],
  },
  {
    name: "inactive_units",
    label: "inactive units",
    meaning: "share of units (channels, neurons) that were zero for every input of the window",
    scale: "share",
    kinds: ["activation"],
  },
];

export function statisticsOf(kind: Kind): readonly TensorStatistic[] {
  return TENSOR_STATISTICS.filter((each) => each.kinds === undefined || each.kinds.includes(kind));
}

/** The one of that name if the kind has it, else the norm. */
export function statisticNamed(name: string | undefined, kind: Kind): TensorStatistic {
  const all = statisticsOf(kind);
  const found = all.find((each) => each.name === name) ?? all[0];
  if (found === undefined) throw new Error("every kind has a norm");
  return found;
}

export function kindNamed(name: string | undefined): Kind | null {
  return KINDS.find((each) => each.kind === name)?.kind ?? null;
}

export function kindLabel(kind: Kind): string {
  return KINDS.find((each) => each.kind === kind)?.label ?? kind;
}
