import type { JSX } from "preact";
import { plainName } from "../../lib/graph-text";
import { inside, type Item } from "../../lib/graph-tree";
import type { GraphState } from "./graph-state";
import { titleOf } from "./paint-boxes";

const MOST_NEIGHBOURS = 12;

/** Where the data comes from and where it goes, across open and closed groups. */
export function Neighbours({ item, state }: { readonly item: Item; readonly state: GraphState }): JSX.Element {
  const within = new Set(inside(state.tree.items, item.id));
  const sources = state.tree.links.filter(({ source, target }) => within.has(target) && !within.has(source));
  const targets = state.tree.links.filter(({ source, target }) => within.has(source) && !within.has(target));
  return (
    <>
      <NeighbourList title="Reads" state={state} ids={sources.map(({ source }) => source)} />
      <NeighbourList title="Read by" state={state} ids={targets.map(({ target }) => target)} />
    </>
  );
}

interface NeighbourListProps {
  readonly title: string;
  readonly state: GraphState;
  readonly ids: readonly number[];
}

function NeighbourList({ title, state, ids }: NeighbourListProps): JSX.Element | null {
  const items = [...new Set(ids)].flatMap((id) => state.item(id) ?? []);
  if (items.length === 0) return null;
  return (
    <section>
      <h4>{title}</h4>
      <ul class="graph-neighbours">
        {items.slice(0, MOST_NEIGHBOURS).map((other) => (
          <li key={other.id}>
            <button type="button" class="link" onClick={() => state.show(other.id)}>
              <bdi>{neighbourText(state, other)}</bdi>
            </button>
          </li>
        ))}
        {items.length > MOST_NEIGHBOURS && <li class="muted">and {items.length - MOST_NEIGHBOURS} more</li>}
      </ul>
    </section>
  );
}

function neighbourText(state: GraphState, item: Item): string {
  if (item.kind === "join") return "a sum or similar, outside modules";
  if (!item.module) return `the model's ${item.label}`;
  const call = item.call > 0 ? `, call ${item.call}` : "";
  return `${plainName(item.module.name)} (${plainName(titleOf(state.tree, item))}${call})`;
}
