/** What the user chose on the page of layers, kept in the link. */

import { page, params, setParam } from "../../app/state";
import type { LayerPlace } from "../../lib/finding-places";
import type { HeatLimits } from "../../lib/heat-scale";
import { kindNamed, statisticNamed, type TensorStatistic } from "../../lib/tensor-statistics";
import type { ValueScale } from "../../lib/value-axis";
import type { Kind } from "../../wire/types";

/** robust and full: the values themselves, with limits; own: against each row's own median. */
export type Colouring = "robust" | "full" | "own";

export interface LayerChoices {
  readonly kind: Kind | null;
  readonly statistic: string | undefined;
  readonly search: string;
  readonly colouring: Colouring;
  readonly tensor: string | null;
  /** null: as many names as there are say. */
  readonly grouped: boolean | null;
}

export function layerChoices(): LayerChoices {
  const of = params.value;
  const colouring = of["layers.colours"];
  return {
    kind: kindNamed(of["layers.kind"]),
    statistic: of["layers.stat"],
    search: of["layers.search"] ?? "",
    colouring: colouring === "full" || colouring === "own" ? colouring : "robust",
    tensor: of["layers.tensor"] ?? null,
    grouped: of["layers.groups"] === undefined ? null : of["layers.groups"] === "1",
  };
}

export function statisticOfChoice(choices: LayerChoices, kind: Kind): TensorStatistic {
  return statisticNamed(choices.statistic, kind);
}

export function limitsOf(colouring: Colouring): HeatLimits {
  return colouring === "full" ? "full" : "robust";
}

/** The axis of values that both pages of tensors share. */
export function valueScale(): ValueScale {
  const chosen = params.value["tensors.axis"];
  return chosen === "linear" || chosen === "log" ? chosen : "symlog";
}

export function setValueScale(scale: ValueScale): void {
  setParam("tensors.axis", scale === "symlog" ? null : scale);
}

/** Whether axes hold also what only a few wild steps reach. */
export function showsEverything(): boolean {
  return params.value["tensors.all"] === "1";
}

export function setShowsEverything(everything: boolean): void {
  setParam("tensors.all", everything ? "1" : null);
}

/** Goes to the histograms of a tensor, at a step. */
export function openHistogram(kind: Kind, name: string, step: number | null): void {
  setParam("histograms.kind", kind);
  setParam("histograms.tensor", name);
  setParam("histograms.step", step === null ? null : String(step));
  setParam("histograms.to", null);
  page.value = "histograms";
}

/** Goes to the tensors in which a finding is to be seen. */
export function openPlace({ kind, statistic, search, tensor }: LayerPlace): void {
  setParam("layers.kind", kind);
  setParam("layers.stat", statistic);
  setParam("layers.search", search);
  setParam("layers.tensor", tensor);
  page.value = "layers";
}

/** Goes to the layers, with a tensor opened. */
export function openLayer(kind: Kind, name: string): void {
  setParam("layers.kind", kind);
  setParam("layers.tensor", name);
  page.value = "layers";
}
