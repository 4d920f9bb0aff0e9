import type { JSX } from "preact";
import { setParam } from "../../app/state";
import { MEASURES } from "../../lib/graph-health";
import { MOST_BOXES } from "../../lib/graph-expansion";
import type { GraphState } from "./graph-state";
import { Legend } from "./legend";
import type { Colours } from "./picture";
import { ModuleSearch } from "./module-search";

export interface ToolbarProps {
  readonly state: GraphState;
  readonly colours: Colours;
  readonly isList: boolean;
}

export function Toolbar({ state, colours, isList }: ToolbarProps): JSX.Element {
  const { measure } = colours;
  return (
    <div class="graph-toolbar">
      <ModuleSearch state={state} />
      <div class="segments" role="radiogroup" aria-label="View">
        {[["graph", "Graph"] as const, ["list", "List"] as const].map(([value, title]) => (
          <button
            key={value}
            type="button"
            role="radio"
            class="segment"
            aria-checked={(value === "list") === isList}
            onClick={() => setParam("graph.view", value === "list" ? "list" : null)}
          >
            {title}
          </button>
        ))}
      </div>
      <button
        type="button"
        class="button"
        title={`Open every group, up to ${MOST_BOXES} boxes`}
        onClick={() => state.openAll()}
      >
        Open all
      </button>
      <button type="button" class="button" title="Back to the initial view" onClick={() => state.openAsAtStart()}>
        Reset
      </button>
      <span class="grow" />
      <label class="setting" title={measure.meaning}>
        Colour
        <select value={measure.key} onChange={(event) => setParam("graph.colour", event.currentTarget.value)}>
          {MEASURES.map(({ key, label }) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <Legend colours={colours} />
    </div>
  );
}
