import { useComputed, useSignal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo, useRef } from "preact/hooks";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import type { Gesture, Point } from "../../lib/gestures";
import { AXIS_HEIGHT, heatLayout, rowAt, scrollFor, stepToX, wantedHeight, xToStep, type HeatLayout } from "../../lib/heat-layout";
import { columnEnds } from "../../lib/heat";
import type { Row } from "../../lib/row-tree";
import { shownName } from "../../lib/tensor-name";
import type { TensorStatistic } from "../../lib/tensor-statistics";
import { drawSelection, drawStepLine } from "./axes";
import { cellFacts, cellSentence, drawnColumn, type CellFacts } from "./heat-cell";
import { heatKey, type HeatCursor } from "./heat-keys";
import { caretX, cellFrame, drawHeat, type HeatScene } from "./heat-picture";
import { Plot, type PlotSize } from "./plot";
import { wheelFactor, type StepMoves } from "./steps";
import { Facts, Tooltip } from "./tooltip";
import { useViewportHeight } from "./viewport";

export interface HeatMapProps {
  readonly scene: HeatScene;
  readonly statistic: TensorStatistic;
  readonly moves: StepMoves;
  readonly title: string;
  readonly exportName: string;
  readonly onSelect: (row: Row, step: number) => void;
  readonly onToggle: (row: Row) => void;
  /** The step under the cursor, for the charts below. */
  readonly step: Signal<number | null>;
}

export function HeatMap(props: HeatMapProps): JSX.Element {
  const { scene, moves } = props;
  const scroll = useSignal(0);
  const box = useRef<HTMLDivElement>(null);
  const cursor = useSignal<HeatCursor | null>(null);
  const drag = useSignal<readonly [from: number, to: number] | null>(null);
  const spoken = useSignal("");
  const height = wantedHeight(scene.rows.length, useViewportHeight(0.58)) + AXIS_HEIGHT;
  const layoutOf = (size: PlotSize): HeatLayout => layoutFor(scene, size);
  const tall = layoutOf({ width: 100, height }).total + AXIS_HEIGHT;

  const top = scroll.value;
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, canvasHeight: number, palette: Palette) =>
      drawHeat(context, layoutOf({ width, height: canvasHeight }), scene, top, palette),
    [scene, top],
  );
  const overlay = useCallback(
    (context: CanvasRenderingContext2D, width: number, canvasHeight: number, palette: Palette) => {
      const layout = layoutOf({ width, height: canvasHeight });
      if (drag.value) drawSelection(context, cellFrame(layout), drag.value[0], drag.value[1], palette);
      else if (cursor.value) drawCursor(context, layout, scene, cursor.value, scroll.value, palette);
    },
    [scene],
  );

  const point = (at: Point, size: PlotSize): void => {
    const layout = layoutOf(size);
    const row = rowAt(layout, at.y, scroll.peek());
    const step = Math.floor(xToStep(layout, scene.window, Math.max(at.x, layout.labels)));
    cursor.value = row < 0 ? null : { row, step, at, size, byKey: false };
    props.step.value = row < 0 || at.x < layout.labels ? null : step;
  };
  const gesture = (happened: Gesture, size: PlotSize): void => {
    const layout = layoutOf(size);
    const stepOf = (x: number): number => xToStep(layout, scene.window, x);
    if (happened.kind === "hover") point(happened.at, size);
    else if (happened.kind === "click") click(happened.at, size, layout);
    else if (happened.kind === "dragging") drag.value = [happened.from.x, happened.to.x];
    else if (happened.kind === "dragged") {
      drag.value = null;
      if (happened.from.x > layout.labels) moves.drag(stepOf(happened.from.x), stepOf(Math.max(happened.to.x, layout.labels)));
    } else if (happened.kind === "pinch") moves.zoom(stepOf(happened.at.x), happened.factor);
    else drag.value = null;
  };
  const click = (at: Point, size: PlotSize, layout: HeatLayout): void => {
    point(at, size);
    const row = scene.rows[cursor.peek()?.row ?? -1];
    if (!row) return;
    const onName = at.x < layout.labels;
    if (row.kind === "group" && (onName || row.open || at.x < caretX(row) + 14)) props.onToggle(row);
    else props.onSelect(row, cursor.peek()?.step ?? scene.window.last);
  };
  const leave = (): void => {
    if (!cursor.peek()?.byKey) cursor.value = null;
    props.step.value = null;
  };
  const key = (event: KeyboardEvent): boolean => {
    const size = { width: box.current?.clientWidth ?? 0, height };
    const next = heatKey(event, cursor.peek(), scene, layoutOf(size), { ...props, size, scroll: scroll.peek() });
    if (next === null) return false;
    cursor.value = next;
    props.step.value = next.step;
    if (box.current) box.current.scrollTop = scrollFor(layoutOf(size), next.row, box.current.scrollTop);
    const facts = factsAt(props, next);
    spoken.value = facts ? cellSentence(facts, props.statistic) : (scene.rows[next.row]?.name ?? "");
    return true;
  };
  const csv = useMemo(() => () => heatRows(scene), [scene]);
  return (
    <div ref={box} class="heat-scroll" style={{ height: `${height}px` }} onScroll={(event) => (scroll.value = event.currentTarget.scrollTop)}>
      <div style={{ height: `${tall}px` }}>
        <Plot
          class="heat-plot"
          draw={draw}
          overlay={overlay}
          height={height}
          label={`${props.title}. Arrow keys move from cell to cell, Enter opens a row, plus and minus zoom.`}
          exportName={props.exportName}
          csv={csv}
          onGesture={gesture}
          onLeave={leave}
          onReset={moves.reset}
          onKey={key}
          onWheel={(at, turned, across, size) => {
            if (across !== 0) moves.move(across / size.width);
            else moves.zoom(xToStep(layoutOf(size), scene.window, at.x), wheelFactor(turned));
          }}
        >
          <HeatTooltip {...props} cursor={cursor} drag={drag} />
        </Plot>
      </div>
      <p class="unseen" role="status" aria-live="polite">{spoken}</p>
    </div>
  );
}

function layoutFor({ rows, names }: HeatScene, size: PlotSize): HeatLayout {
  return heatLayout(size.width, size.height - AXIS_HEIGHT, rows.length, names);
}

function drawCursor(context: CanvasRenderingContext2D, layout: HeatLayout, scene: HeatScene, cursor: HeatCursor, scroll: number, palette: Palette): void {
  const top = cursor.row * layout.rowHeight - scroll;
  context.globalAlpha = 0.1;
  context.fillStyle = palette.accent;
  context.fillRect(0, top, layout.labels, layout.rowHeight);
  context.globalAlpha = 1;
  if (!cursor.byKey && cursor.at.x < layout.labels) return;
  const column = drawnColumn(scene.table, cursor.step);
  const from = column < 0 ? cursor.step : (scene.table.first[column] ?? 0);
  const to = column < 0 ? cursor.step + 1 : (columnEnds(scene.table.first, scene.table.last)[column] ?? 0);
  const [left, right] = [stepToX(layout, scene.window, from), stepToX(layout, scene.window, to)];
  drawStepLine(context, cellFrame(layout), (left + right) / 2, palette.faint);
  const width = Math.max(right - left, 4);
  context.lineWidth = 3;
  context.strokeStyle = palette.surface;
  context.strokeRect((left + right - width) / 2 - 0.5, top - 0.5, width + 1, layout.rowHeight);
  context.lineWidth = 1.5;
  context.strokeStyle = palette.text;
  context.strokeRect((left + right - width) / 2 - 0.5, top - 0.5, width + 1, layout.rowHeight);
}

function factsAt({ scene, statistic }: HeatMapProps, cursor: HeatCursor): CellFacts | null {
  const row = scene.rows[cursor.row];
  if (!row || row.open) return null;
  return cellFacts(scene.table, row, drawnColumn(scene.table, cursor.step), statistic, scene.rule);
}

interface HeatTooltipProps extends HeatMapProps {
  readonly cursor: Signal<HeatCursor | null>;
  readonly drag: Signal<readonly [number, number] | null>;
}

/** A component of its own, so that the pointer redraws this and nothing else. */
function HeatTooltip(props: HeatTooltipProps): JSX.Element | null {
  const shown = useComputed(() => (props.drag.value ? null : props.cursor.value)).value;
  const row = shown && props.scene.rows[shown.row];
  if (!shown || !row) return null;
  const layout = layoutFor(props.scene, shown.size);
  const onCells = shown.byKey || shown.at.x >= layout.labels;
  const facts = onCells ? factsAt(props, shown) : null;
  return (
    <Tooltip at={shown.at} width={shown.size.width} height={shown.size.height}>
      <strong class="tensor-name"><bdi>{shownName(row.name)}</bdi></strong>
      {facts ? <CellFactsList facts={facts} statistic={props.statistic} /> : <RowHint row={row} />}
    </Tooltip>
  );
}

function RowHint({ row }: { readonly row: Row }): JSX.Element {
  if (row.kind === "leaf") return <p class="muted">Click for its distribution over time</p>;
  return <p class="muted">{row.to - row.from} tensors. Click to {row.open ? "close" : "open"}.</p>;
}

function CellFactsList({ facts, statistic }: { readonly facts: CellFacts; readonly statistic: TensorStatistic }): JSX.Element {
  const rows: (readonly [string, string, ("bad" | "muted")?])[] = [];
  if (facts.value === null) rows.push(["no sample at step", facts.steps === "NaN" ? "" : facts.steps, "muted"]);
  else rows.push([statistic.label, facts.value], ["step", facts.steps]);
  if (facts.change) rows.push(["against its median", facts.change]);
  if (facts.bad) rows.push(["not finite", facts.bad, "bad"]);
  if (facts.of && facts.value !== null) rows.push(["of", facts.of, "muted"]);
  return <Facts rows={rows} />;
}

function heatRows({ table }: HeatScene): CsvRow[] {
  const columns = table.first.length;
  const steps = Array.from(table.first, (first, i) => (table.last[i] === first ? first : `${first}-${table.last[i]}`));
  const rows = table.names.map((name, row): CsvRow => {
    const values = table.values.subarray(row * columns, (row + 1) * columns);
    return [name, ...Array.from(values, (value) => (Number.isNaN(value) ? null : value))];
  });
  return [["tensor", ...steps], ...rows];
}
