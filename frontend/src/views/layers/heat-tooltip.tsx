import { useComputed, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import type { FindingMark } from "../../lib/finding-marks";
import { formatCount } from "../../lib/format";
import type { Row } from "../../lib/row-tree";
import { shownName } from "../../lib/tensor-name";
import type { TensorStatistic } from "../../lib/tensor-statistics";
import { cellFacts, drawnColumn, type CellFacts } from "./heat-cell";
import type { HeatCursor } from "./heat-keys";
import { layoutFor, markOf, type HeatScene } from "./heat-picture";
import { Facts, Tooltip } from "./tooltip";

export interface HeatTooltipProps {
  readonly scene: HeatScene;
  readonly statistic: TensorStatistic;
  readonly cursor: Signal<HeatCursor | null>;
  readonly drag: Signal<readonly [from: number, to: number] | null>;
}

/** A component of its own, so that the pointer redraws this and nothing else. */
export function HeatTooltip(props: HeatTooltipProps): JSX.Element | null {
  const shown = useComputed(() => (props.drag.value ? null : props.cursor.value)).value;
  const row = shown && props.scene.rows[shown.row];
  if (!shown || !row) return null;
  const layout = layoutFor(props.scene, shown.size);
  const onCells = shown.byKey || shown.at.x >= layout.labels;
  const facts = onCells ? factsAt(props.scene, props.statistic, shown) : null;
  return (
    <Tooltip at={shown.at} width={shown.size.width} height={shown.size.height}>
      <strong class="tensor-name">
        <bdi>{shownName(row.name)}</bdi>
      </strong>
      {facts ? <CellFactsList facts={facts} statistic={props.statistic} /> : <RowHint row={row} />}
      <Found mark={markOf(props.scene, row)} />
    </Tooltip>
  );
}

function Found({ mark }: { readonly mark: FindingMark | undefined }): JSX.Element | null {
  if (!mark) return null;
  return (
    <p class={mark.severity === "error" ? "bad" : "warning"}>
      {mark.rules.join(", ")} since step {formatCount(mark.step)}
    </p>
  );
}

function RowHint({ row }: { readonly row: Row }): JSX.Element {
  if (row.kind === "leaf") return <p class="muted">Click for its distribution over time</p>;
  return (
    <p class="muted">
      {row.to - row.from} tensors. Click to {row.open ? "close" : "open"}.
    </p>
  );
}

function CellFactsList({
  facts,
  statistic,
}: {
  readonly facts: CellFacts;
  readonly statistic: TensorStatistic;
}): JSX.Element {
  const rows: (readonly [string, string, ("bad" | "muted")?])[] = [];
  if (facts.value === null && facts.bad) rows.push(["step", facts.steps]);
  else if (facts.value === null) rows.push(["no sample at step", facts.steps === "NaN" ? "" : facts.steps, "muted"]);
  else rows.push([statistic.label, facts.value], ["step", facts.steps]);
  if (facts.change) rows.push(["against its median", facts.change]);
  if (facts.bad) rows.push(["not finite", facts.bad, "bad"]);
  if (facts.of && facts.value !== null) rows.push(["of", facts.of, "muted"]);
  return <Facts rows={rows} />;
}

/** What the cell under the cursor says; null for the heading of an open group. */
export function factsAt(scene: HeatScene, statistic: TensorStatistic, cursor: HeatCursor): CellFacts | null {
  const row = scene.rows[cursor.row];
  if (!row || row.open) return null;
  return cellFacts(scene.table, row, drawnColumn(scene.table, cursor.step), statistic, scene.rule);
}
