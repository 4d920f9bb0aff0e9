import type { JSX } from "preact";
import { formatCount } from "../../lib/format";
import { combinedTitle } from "../../lib/graph-health";
import { plainName } from "../../lib/graph-text";
import { isUnused, type Item } from "../../lib/graph-tree";
import type { GraphNode, RunRow } from "../../wire/types";
import { Fact, Shapes } from "./facts";
import type { GraphState } from "./graph-state";
import { Neighbours } from "./neighbours";
import { Numbers } from "./numbers";
import { titleOf, valueText } from "./paint-boxes";
import type { Colours } from "./picture";
import { Summary } from "./summary";

export interface PanelProps {
  readonly run: RunRow;
  readonly state: GraphState;
  readonly colours: Colours;
}

/** Everything known of the selected module; of the whole network when none is selected. */
export function Panel({ run, state, colours }: PanelProps): JSX.Element {
  const item = state.item(state.selected.value);
  if (!item) return <Summary state={state} />;
  return (
    <aside class="card graph-panel" aria-label="Selected module">
      <Head item={item} state={state} />
      {item.module && <Facts state={state} item={item} module={item.module} />}
      <Colour item={item} state={state} colours={colours} />
      {item.module && <Numbers key={item.module.name} run={run} state={state} module={item.module} />}
      <Neighbours item={item} state={state} />
    </aside>
  );
}

function Head({ item, state }: { readonly item: Item; readonly state: GraphState }): JSX.Element {
  const isOpen = state.open.value.has(item.id);
  return (
    <header class="graph-panel-head">
      <h3>
        <bdi>{plainName(titleOf(state.tree, item))}</bdi>
      </h3>
      <p class="graph-name">
        <bdi>{plainName(item.module?.name ?? item.label)}</bdi>
      </p>
      <div class="graph-actions">
        {item.children.length > 0 && (
          <button type="button" class="button" onClick={() => state.toggle(item.id)}>
            {isOpen ? "Close" : "Open"}
          </button>
        )}
        <button type="button" class="button" onClick={() => state.show(item.id)}>
          Centre
        </button>
        <button type="button" class="button" aria-label="Deselect" onClick={() => (state.selected.value = null)}>
          Deselect
        </button>
      </div>
    </header>
  );
}

function Facts({
  state,
  item,
  module,
}: {
  readonly state: GraphState;
  readonly item: Item;
  readonly module: GraphNode;
}): JSX.Element {
  const frozen = module.parameters - module.trainable;
  return (
    <dl class="graph-facts">
      <Fact label="Parameters">
        {formatCount(module.parameters)}
        {frozen > 0 && (
          <span class="muted"> ({frozen === module.parameters ? "all" : formatCount(frozen)} frozen)</span>
        )}
      </Fact>
      <Fact label="In">
        <Shapes tensors={module.inputs} />
      </Fact>
      <Fact label="Out">
        <Shapes tensors={module.outputs} />
      </Fact>
      <Fact label="Calls">{callsText(state, item, module)}</Fact>
      {module.source_file !== "" && (
        <Fact label="Source">
          <code class="graph-source">
            {plainName(module.source_file)}:{module.source_line}
          </code>
        </Fact>
      )}
    </dl>
  );
}

function callsText(state: GraphState, item: Item, module: GraphNode): string {
  if (isUnused(state.tree.items, item)) return "never called in the first forward pass";
  if (module.calls === 0)
    return item.order === Infinity ? "not seen; the enclosing module uses it" : "none; its submodules are called";
  const often = module.calls === 1 ? "once" : `${module.calls} times`;
  return item.call > 0 ? `${often} in one forward pass; this is call ${item.call}` : `${often} in one forward pass`;
}

function Colour({ item, colours }: PanelPart): JSX.Element | null {
  const health = colours.health.get(item.id);
  if (!health || health.parts.length === 0) return null;
  return (
    <p class="graph-colour">
      {combinedTitle(colours.measure, health.parts.length)}: <strong>{valueText(colours.measure, health.value)}</strong>
    </p>
  );
}

interface PanelPart {
  readonly item: Item;
  readonly state: GraphState;
  readonly colours: Colours;
}
