/** What the user chose on the page of histograms, kept in the link. */

import { params, setParam } from "../../app/state";
import { kindNamed } from "../../lib/tensor-statistics";
import type { Kind } from "../../wire/types";

/** Whether the axis of values holds all steps, or what is shown; auto: all steps, unless too little of it is left. */
export type Fit = "auto" | "all" | "shown";

export interface HistogramChoices {
  readonly kind: Kind | null;
  readonly tensor: string | null;
  /** null: the newest, also when newer ones come. */
  readonly step: number | null;
  /** The end of a range of steps that are merged; null: one sample. */
  readonly to: number | null;
  /** What it is compared with; null: nothing. */
  readonly against: Against | null;
  readonly mode: "density" | "count";
  readonly logCounts: boolean;
  readonly fit: Fit;
  readonly overTime: "ridges" | "heat";
}

export interface Against {
  /** null: the same run. */
  readonly run: string | null;
  /** null: the same step. */
  readonly step: number | null;
}

export function histogramChoices(): HistogramChoices {
  const of = params.value;
  const [run, step] = [of["histograms.vsrun"] ?? null, stepIn(of["histograms.vs"])];
  return {
    kind: kindNamed(of["histograms.kind"]),
    tensor: of["histograms.tensor"] ?? null,
    step: stepIn(of["histograms.step"]),
    to: stepIn(of["histograms.to"]),
    against: run === null && step === null ? null : { run, step },
    mode: of["histograms.height"] === "count" ? "count" : "density",
    logCounts: of["histograms.log"] === "1",
    fit: of["histograms.fit"] === "shown" ? "shown" : of["histograms.fit"] === "all" ? "all" : "auto",
    overTime: of["histograms.time"] === "heat" ? "heat" : "ridges",
  };
}

function stepIn(text: string | undefined): number | null {
  const step = text === undefined || text === "" ? NaN : Number(text);
  return Number.isSafeInteger(step) ? step : null;
}

export function setStep(step: number | null, to: number | null = null): void {
  setParam("histograms.step", step === null ? null : String(step));
  setParam("histograms.to", to === null ? null : String(to));
}

export function setAgainst(against: Against | null): void {
  setParam("histograms.vsrun", against?.run ?? null);
  setParam("histograms.vs", against?.step === null || against === null ? null : String(against.step));
}
