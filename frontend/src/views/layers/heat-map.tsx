import { useSignal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo, useRef } from "preact/hooks";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import { AXIS_HEIGHT, scrollFor, wantedHeight, xToStep } from "../../lib/heat-layout";
import type { Row } from "../../lib/row-tree";
import { shownName } from "../../lib/tensor-name";
import type { TensorStatistic } from "../../lib/tensor-statistics";
import { drawSelection } from "./axes";
import { cellSentence } from "./heat-cell";
import { heatKey, type HeatCursor } from "./heat-keys";
import { cellFrame, drawCursor, drawHeat, layoutFor, type HeatScene } from "./heat-picture";
import { heatGesture, heatLeave, type HeatControls } from "./heat-pointer";
import { factsAt, HeatTooltip } from "./heat-tooltip";
import { Plot, type PlotSize } from "./plot";
import { wheelFactor, type StepMoves } from "./steps";
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
  const tall = layoutFor(scene, { width: 100, height }).total + AXIS_HEIGHT;
  const controls: HeatControls = { ...props, cursor, drag, scroll };
  const { draw, overlay } = useDrawing(controls);
  const key = (event: KeyboardEvent, size: PlotSize): boolean => {
    const layout = layoutFor(scene, size);
    const next = heatKey(event, cursor.peek(), scene, layout, { ...props, size, scroll: scroll.peek() });
    if (next === null) return false;
    cursor.value = next;
    props.step.value = next.step;
    if (box.current) box.current.scrollTop = scrollFor(layout, next.row, box.current.scrollTop);
    const facts = factsAt(scene, props.statistic, next);
    spoken.value = facts ? cellSentence(facts, props.statistic) : shownName(scene.rows[next.row]?.name ?? "");
    return true;
  };
  const csv = useMemo(() => () => heatRows(scene), [scene]);
  return (
    <div
      ref={box}
      class={tall > height ? "heat-scroll" : "heat-whole"}
      style={{ height: `${height}px` }}
      onScroll={(event) => (scroll.value = event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${tall}px` }}>
        <Plot
          class="heat-plot"
          draw={draw}
          overlay={overlay}
          height={height}
          label={`${props.title}. Arrow keys move from cell to cell, Enter opens a row, plus and minus zoom.`}
          exportName={props.exportName}
          csv={csv}
          onGesture={(happened, size) => heatGesture(controls, happened, size)}
          onLeave={() => heatLeave(controls)}
          onReset={moves.reset}
          onKey={key}
          spoken={spoken}
          onWheel={(at, turned, across, size) => {
            if (across !== 0) moves.move(across / size.width);
            else moves.zoom(xToStep(layoutFor(scene, size), scene.window, at.x), wheelFactor(turned));
          }}
        >
          <HeatTooltip scene={scene} statistic={props.statistic} cursor={cursor} drag={drag} />
        </Plot>
      </div>
    </div>
  );
}

type Draw = (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => void;

/** The map, drawn when it changes or scrolls; and above it the cursor, drawn whenever that moves. */
function useDrawing({ scene, scroll, cursor, drag }: HeatControls): { draw: Draw; overlay: Draw } {
  const top = scroll.value;
  const draw = useCallback<Draw>(
    (context, width, height, palette) => drawHeat(context, layoutFor(scene, { width, height }), scene, top, palette),
    [scene, top],
  );
  const overlay = useCallback<Draw>(
    (context, width, height, palette) => {
      const layout = layoutFor(scene, { width, height });
      if (drag.value) drawSelection(context, cellFrame(layout), drag.value[0], drag.value[1], palette);
      else if (cursor.value) drawCursor(context, layout, scene, cursor.value, scroll.value, palette);
    },
    [scene],
  );
  return { draw, overlay };
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
