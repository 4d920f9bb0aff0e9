import type { JSX } from "preact";
import { plainName } from "../../lib/graph-text";
import { combinedTitle } from "../../lib/graph-health";
import { formatCount } from "../../lib/format";
import type { GraphState } from "./graph-state";
import { lineShape } from "./paint";
import { parametersOf, titleOf, valueText } from "./paint-boxes";
import type { Colours } from "./picture";

/** What the pointer is on, in the corner of the picture: it covers nothing that one looks at. */
export function Hint({
  state,
  colours,
}: {
  readonly state: GraphState;
  readonly colours: Colours;
}): JSX.Element | null {
  const hovered = state.hovered.value;
  if (hovered === null) return null;
  if (hovered.kind === "line") {
    const { line } = hovered;
    const shape = lineShape({ tree: state.tree, scene: state.scene.value }, line);
    const targets = line.targets.map((id) => nameOf(state, id));
    return (
      <div class="graph-hint">
        <strong>{shape || "data"}</strong>
        <span>
          <bdi>{nameOf(state, line.source)}</bdi> → <bdi>{targets.slice(0, 3).join(", ")}</bdi>
          {targets.length > 3 && ` and ${targets.length - 3} more`}
        </span>
        {line.goesUp && <span class="muted">back to an earlier module</span>}
      </div>
    );
  }
  const item = state.item(hovered.id);
  if (!item) return null;
  if (item.kind === "join") return <JoinHint />;
  const health = colours.health.get(item.id);
  const parameters = parametersOf(state.tree, item);
  return (
    <div class="graph-hint">
      <strong>
        <bdi>{titleOf(state.tree, item)}</bdi>
      </strong>
      <span>
        <bdi>{plainName(item.module?.name ?? item.label)}</bdi>
      </span>
      {parameters > 0 && <span class="muted">{formatCount(parameters)} parameters</span>}
      {health && !Number.isNaN(health.value) && (
        <span>
          {combinedTitle(colours.measure, health.parts.length)}: {valueText(colours.measure, health.value)}
        </span>
      )}
      {item.children.length > 0 && <span class="muted">Double-click to open or close</span>}
    </div>
  );
}

function JoinHint(): JSX.Element {
  return (
    <div class="graph-hint">
      <strong>Joined outside modules</strong>
      <span class="muted">a sum or a concatenation, for example</span>
    </div>
  );
}

function nameOf(state: GraphState, id: number): string {
  const item = state.item(id);
  if (!item) return "";
  return item.kind === "join" ? "joined" : plainName(item.module?.name ?? item.label);
}
