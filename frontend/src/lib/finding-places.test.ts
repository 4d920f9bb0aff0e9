import { expect, it } from "vitest";
import type { Kind, SeriesName } from "../wire/types";
import { layerPlace } from "./finding-places";
import { matches } from "./row-tree";

const PARAMETERS = ["encoder.1.weight", "encoder.1.bias", "encoder.10.weight", "head.weight"];
const OUTPUTS = ["encoder.1", "encoder.10", "head"];
const series: SeriesName[] = [
  ...(["weight", "gradient", "update"] as const).flatMap((kind) => PARAMETERS.map((name) => ({ kind, name }))),
  ...OUTPUTS.map((name) => ({ kind: "activation" as const, name })),
  { kind: "tensor", name: "input/0" },
];
const place = (rule: string, where: string) => layerPlace(rule, where, { series });
const rows = (kind: Kind, search: string): string[] => {
  const names = series.filter((each) => each.kind === kind).map((each) => each.name);
  return matches(names, search).map((i) => names[i] ?? "");
};

it("leads to the kind of tensor that shows it", () => {
  expect(place("dead-units", "head")).toEqual({
    kind: "activation",
    statistic: "inactive_units",
    search: "head",
    tensor: "head",
  });
  expect(place("vanishing-gradients", "head.weight")).toMatchObject({ kind: "gradient", tensor: "head.weight" });
  expect(place("update-ratio-high", "head.weight")).toMatchObject({ kind: "update", statistic: "ratio" });
  expect(place("init-scale", "head.weight")).toMatchObject({ kind: "weight" });
  expect(place("nonfinite-gradient", "head.weight")).toMatchObject({ kind: "gradient", statistic: "nonfinite" });
  expect(place("input-scale", "input/0")).toMatchObject({ kind: "tensor", tensor: "input/0" });
});

it("finds the layer and none whose name begins alike", () => {
  const found = place("zero-gradients", "encoder.1");
  expect(found).toMatchObject({ search: '"encoder.1"', tensor: null });
  expect(rows("gradient", found?.search ?? "")).toEqual(["encoder.1.weight", "encoder.1.bias"]);
  expect(place("saturated-units", "encoder.1")).toMatchObject({ search: '"encoder.1"', tensor: "encoder.1" });
});

it("takes another kind where the wanted one has no samples", () => {
  const weights = series.filter((each) => each.kind === "weight");
  expect(layerPlace("no-gradient", "head.weight", { series: weights })).toMatchObject({ kind: "weight" });
  expect(place("dead-units", "head.weight")).toMatchObject({ kind: "gradient", statistic: null });
});

it("leads nowhere where there is no tensor", () => {
  expect(place("loss-input-shape", "train.py:41")).toBeNull();
  expect(place("straggler-rank", "rank 3")).toBeNull();
  expect(place("constructor", "")).toBeNull();
});
