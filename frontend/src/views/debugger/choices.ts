/** What the user looks at on the page of the debugger, kept in the link. */

import { signal } from "@preact/signals";
import { params, setParam } from "../../app/state";

export const TABS = ["tensors", "watch", "breaks", "hits", "batch", "optimizer", "evaluate"] as const;
export type PanelTab = (typeof TABS)[number];

export function panelTab(): PanelTab {
  return TABS.find((each) => each === params.value["debugger.tab"]) ?? "tensors";
}

export function openTab(tab: PanelTab): void {
  setParam("debugger.tab", tab === "tensors" ? null : tab);
  pane.value = "data";
}

export function chosenModule(): string | null {
  return params.value["debugger.module"] ?? null;
}

export function chooseModule(name: string | null): void {
  setParam("debugger.module", name);
}

/** The tensor in the inspector. */
export function chosenTensor(): string | null {
  return params.value["debugger.tensor"] ?? null;
}

export function chooseTensor(name: string | null): void {
  setParam("debugger.tensor", name);
  middle.value = name === null ? "code" : "tensor";
  pane.value = "code";
}

export type Middle = "code" | "tensor";
/** What is in the middle: the code, or the inspector; null: the inspector when a link names a tensor. */
export const middle = signal<Middle | null>(null);

export function shownMiddle(): Middle {
  return middle.value ?? (chosenTensor() === null ? "code" : "tensor");
}

export type Pane = "layers" | "code" | "data";
/** On a phone one of the three is seen at a time. */
export const pane = signal<Pane>("layers");

/** What the list of tensors is reduced to. */
export const tensorKind = signal<string | null>(null);
export const tensorSearch = signal("");

/** Lists the tensors of a layer. */
export function listTensorsOf(module: string): void {
  tensorKind.value = null;
  tensorSearch.value = module;
  openTab("tensors");
}

/** Lists all tensors of a kind. */
export function listTensorsOfKind(kind: string): void {
  tensorKind.value = kind;
  tensorSearch.value = "";
  openTab("tensors");
}
