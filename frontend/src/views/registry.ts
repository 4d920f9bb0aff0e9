/** The pages, in the order of their tabs. */

import type { JSX } from "preact";
import type { PageName } from "../app/state";
import type { ViewProps } from "../app/view";
import { TrainingDataView } from "./data/index";
import { DebuggerView } from "./debugger/index";
import { GraphView } from "./graph/index";
import { HistogramsView } from "./histograms/index";
import { LayersView } from "./layers/index";
import { OverviewView } from "./overview/index";
import { ResourcesView } from "./resources/index";

export interface PageEntry {
  readonly title: string;
  readonly View: (props: ViewProps) => JSX.Element | null;
  /** Whether it draws curves, to which axis, smoothing and log scale apply. */
  readonly curves: boolean;
}

export const VIEWS: Readonly<Record<PageName, PageEntry>> = {
  overview: { title: "Overview", View: OverviewView, curves: true },
  layers: { title: "Layers", View: LayersView, curves: false },
  histograms: { title: "Histograms", View: HistogramsView, curves: false },
  data: { title: "Data", View: TrainingDataView, curves: true },
  resources: { title: "Resources", View: ResourcesView, curves: true },
  graph: { title: "Graph", View: GraphView, curves: false },
  debugger: { title: "Debugger", View: DebuggerView, curves: false },
};
