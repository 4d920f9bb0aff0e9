/** The pages, in the order of their tabs. */

import type { JSX } from "preact";
import type { PageName } from "../app/state";
import type { ViewProps } from "../app/view";
import { DataView } from "./data/index";
import { GraphView } from "./graph/index";
import { HistogramsView } from "./histograms/index";
import { LayersView } from "./layers/index";
import { OverviewView } from "./overview/index";
import { ResourcesView } from "./resources/index";

export interface PageEntry {
  readonly title: string;
  readonly View: (props: ViewProps) => JSX.Element | null;
}

export const VIEWS: Readonly<Record<PageName, PageEntry>> = {
  overview: { title: "Overview", View: OverviewView },
  layers: { title: "Layers", View: LayersView },
  histograms: { title: "Histograms", View: HistogramsView },
  data: { title: "Data", View: DataView },
  resources: { title: "Resources", View: ResourcesView },
  graph: { title: "Graph", View: GraphView },
};
