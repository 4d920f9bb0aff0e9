import type { JSX } from "preact";
import { formatCount, formatPercent } from "../../lib/format";
import { plainName } from "../../lib/graph-text";
import { isUnused } from "../../lib/graph-tree";
import type { GraphNode } from "../../wire/types";
import type { GraphState } from "./graph-state";

/** The whole network in a few lines, and how to read the picture. */
export function Summary({ state }: { readonly state: GraphState }): JSX.Element {
  const { items, roots, byName } = state.tree;
  const modules = [...byName.values()].flatMap((id) => items[id]?.module ?? []);
  const tops = roots.flatMap((id) => items[id]?.module ?? []);
  const parameters = sum(tops, ({ parameters }) => parameters);
  const trainable = sum(tops, ({ trainable }) => trainable);
  const uncalled = items.filter((item) => item.module && item.children.length === 0 && isUnused(items, item));
  const hidden = state.scene.value.hidden;
  return (
    <aside class="card graph-panel" aria-label="The whole network">
      <header class="graph-panel-head">
        <h3>
          <bdi>
            {tops
              .map((top) => plainName(top.class_name))
              .slice(0, 4)
              .join(", ")}
          </bdi>
        </h3>
      </header>
      <dl class="graph-facts">
        <div>
          <dt>Modules</dt>
          <dd>{formatCount(modules.length)}</dd>
        </div>
        <div>
          <dt>Parameters</dt>
          <dd>{formatCount(parameters)}</dd>
        </div>
        {parameters > trainable && (
          <div>
            <dt>Frozen</dt>
            <dd>{formatPercent(1 - trainable / parameters)}</dd>
          </div>
        )}
        {uncalled.length > 0 && (
          <div>
            <dt>Never called</dt>
            <dd class="warning">{formatCount(uncalled.length)}</dd>
          </div>
        )}
      </dl>
      {uncalled.length > 0 && <Uncalled state={state} ids={uncalled.map(({ id }) => id)} />}
      {hidden > 0 && <p class="warning">{formatCount(hidden)} very long lines are not drawn.</p>}
      <h4>How to read this graph</h4>
      <ul class="graph-help">
        <li>Data flows from top to bottom, as in the first forward pass.</li>
        <li>The bar below each box has a cell for each layer inside, coloured by the statistic above.</li>
        <li>Double-click a stacked box to open it; double-click its title to close it.</li>
        <li>
          Drag or scroll to move, <kbd>Ctrl</kbd> + wheel or pinch to zoom, arrow keys to go from box to box.
        </li>
      </ul>
    </aside>
  );
}

const MOST_NAMED = 6;

function Uncalled({ state, ids }: { readonly state: GraphState; readonly ids: readonly number[] }): JSX.Element {
  return (
    <p class="graph-uncalled">
      {ids.slice(0, MOST_NAMED).map((id) => (
        <button key={id} type="button" class="link" onClick={() => state.show(id)}>
          <bdi>{plainName(state.item(id)?.module?.name ?? "")}</bdi>
        </button>
      ))}
      {ids.length > MOST_NAMED && <span class="muted"> and {formatCount(ids.length - MOST_NAMED)} more</span>}
    </p>
  );
}

function sum(modules: readonly GraphNode[], value: (module: GraphNode) => number): number {
  return modules.reduce((total, module) => total + value(module), 0);
}
