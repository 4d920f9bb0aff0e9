import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { Palette } from "../../charts/palette";
import { divergingRamp, lightnessOf, rampColour, rampWord, sequentialRamp, type Ramp } from "../../lib/colourmap";
import {
  indexOf,
  matrixCellAt,
  matrixFrame,
  matrixHeight,
  matrixRows,
  matrixScale,
  valueAt,
  type Cell,
  type MatrixFrame,
  type MatrixScale,
} from "../../lib/debugger-matrix";
import { formatNumber } from "../../lib/format";
import type { Gesture, Point } from "../../lib/gestures";
import { theme } from "../../app/state";
import type { Matrix } from "../../wire/debugger-types";
import { Plot, type PlotSize } from "../layers/plot";
import { Facts, Tooltip } from "../layers/tooltip";

interface MatrixChartProps {
  readonly matrix: Matrix;
  readonly label: string;
  readonly exportName: string;
}

interface Pointed extends Cell {
  readonly at: Point;
  readonly size: PlotSize;
}

/** A slice as a heat map, with the value under the pointer or the arrow keys. */
export function MatrixChart({ matrix, label, exportName }: MatrixChartProps): JSX.Element {
  const pointed = useSignal<Pointed | null>(null);
  const spoken = useSignal("");
  const scale = useMemo(() => matrixScale(matrix.values), [matrix]);
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, _height: number, palette: Palette) =>
      drawMatrix(context, matrix, matrixFrame(matrix, width), scale, palette),
    [matrix, scale],
  );
  const overlay = useCallback(
    (context: CanvasRenderingContext2D, width: number, _height: number, palette: Palette) => {
      if (pointed.value) markCell(context, matrixFrame(matrix, width), pointed.value, palette);
    },
    [matrix],
  );
  const gesture = (happened: Gesture, size: PlotSize): void => {
    if (happened.kind !== "hover" && happened.kind !== "click") return;
    const cell = matrixCellAt(matrix, matrixFrame(matrix, size.width), happened.at.x, happened.at.y);
    pointed.value = cell && { ...cell, at: happened.at, size };
  };
  const key = (event: KeyboardEvent, size: PlotSize): boolean => {
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
    };
    const move = moves[event.key];
    if (!move || matrix.values.length === 0) return false;
    const cell = moved(matrix, pointed.peek(), move);
    const frame = matrixFrame(matrix, size.width);
    const x = frame.left + (cell.column + 0.5) * frame.cellWidth;
    const at = { x, y: frame.top + (cell.row + 0.5) * frame.cellHeight };
    pointed.value = { ...cell, at, size };
    spoken.value = `${indexWords(matrix, cell)}: ${formatNumber(valueAt(matrix, cell), 6)}`;
    return true;
  };
  return (
    <>
      <Plot
        draw={draw}
        overlay={overlay}
        height={matrixHeight(matrix.height)}
        label={label}
        exportName={exportName}
        csv={() => matrixRows(matrix)}
        onGesture={gesture}
        onLeave={() => (pointed.value = null)}
        onReset={() => (pointed.value = null)}
        onWheel={() => undefined}
        onKey={key}
        spoken={spoken}
      >
        {pointed.value && <CellTooltip matrix={matrix} pointed={pointed.value} />}
      </Plot>
      <MatrixLegend scale={scale} />
    </>
  );
}

function moved(matrix: Matrix, from: Cell | null, [down, right]: [number, number]): Cell {
  if (!from) return { row: 0, column: 0 };
  const within = (place: number, size: number): number => Math.min(Math.max(place, 0), size - 1);
  return { row: within(from.row + down, matrix.height), column: within(from.column + right, matrix.width) };
}

function indexWords(matrix: Matrix, cell: Cell): string {
  return `[${indexOf(matrix, cell).join(", ")}]`;
}

function CellTooltip({ matrix, pointed }: { readonly matrix: Matrix; readonly pointed: Pointed }): JSX.Element {
  return (
    <Tooltip at={pointed.at} width={pointed.size.width} height={pointed.size.height}>
      <Facts rows={[[indexWords(matrix, pointed), formatNumber(valueAt(matrix, pointed), 7)]]} />
    </Tooltip>
  );
}

function rampOf(scale: MatrixScale, of: "light" | "dark"): Ramp {
  return scale.isSigned ? divergingRamp(of) : sequentialRamp(of);
}

const LEAST_TEXT = { width: 42, height: 13 };

function drawMatrix(
  context: CanvasRenderingContext2D,
  matrix: Matrix,
  frame: MatrixFrame,
  scale: MatrixScale,
  palette: Palette,
): void {
  const ramp = rampOf(scale, palette.theme);
  const hasText = frame.cellWidth >= LEAST_TEXT.width && frame.cellHeight >= LEAST_TEXT.height;
  const gap = frame.cellWidth > 6 && frame.cellHeight > 6 ? 1 : 0;
  context.font = `11px ${palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (let row = 0; row < matrix.height; row++) {
    for (let column = 0; column < matrix.width; column++) {
      const value = valueAt(matrix, { row, column });
      const [x, y] = [frame.left + column * frame.cellWidth, frame.top + row * frame.cellHeight];
      const [width, height] = [Math.max(frame.cellWidth - gap, 0.5), Math.max(frame.cellHeight - gap, 0.5)];
      const place = scale.place(value);
      context.fillStyle = Number.isNaN(place) ? palette.bad : rampColour(ramp, place);
      // A hair wider: no ground shines through between cells without a gap.
      context.fillRect(x, y, width + (gap ? 0 : 0.5), height + (gap ? 0 : 0.5));
      if (Number.isNaN(place)) crossOut(context, x, y, width, height, palette);
      if (!hasText) continue;
      const isBright = Number.isNaN(place) ? palette.theme === "dark" : lightnessOf(rampWord(ramp, place)) > 0.62;
      context.fillStyle = isBright ? "#14181f" : "#ffffff";
      context.fillText(formatNumber(value, 3), x + width / 2, y + height / 2 + 0.5);
    }
  }
  drawIndexes(context, matrix, frame, palette);
}

/** What is no number is told by more than a colour. */
function crossOut(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  palette: Palette,
): void {
  if (width < 6 || height < 6) return;
  context.strokeStyle = palette.surface;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, y + height);
  context.lineTo(x + width, y);
  context.stroke();
}

function drawIndexes(context: CanvasRenderingContext2D, matrix: Matrix, frame: MatrixFrame, palette: Palette): void {
  context.fillStyle = palette.muted;
  context.font = `10px ${palette.font}`;
  const across = Math.max(1, Math.ceil(34 / frame.cellWidth));
  for (let column = 0; column < matrix.width; column += across) {
    const [, index] = indexOf(matrix, { row: 0, column });
    context.fillText(String(index), frame.left + (column + 0.5) * frame.cellWidth, frame.top / 2);
  }
  context.textAlign = "right";
  const down = Math.max(1, Math.ceil(13 / frame.cellHeight));
  for (let row = 0; row < matrix.height; row += down) {
    const [index] = indexOf(matrix, { row, column: 0 });
    context.fillText(String(index), frame.left - 6, frame.top + (row + 0.5) * frame.cellHeight);
  }
}

function markCell(context: CanvasRenderingContext2D, frame: MatrixFrame, cell: Cell, palette: Palette): void {
  const { row, column } = cell;
  context.strokeStyle = palette.text;
  context.lineWidth = 2;
  const [x, y] = [frame.left + column * frame.cellWidth, frame.top + row * frame.cellHeight];
  context.strokeRect(x - 1, y - 1, frame.cellWidth + 1, frame.cellHeight + 1);
}

const STOPS = 16;

function MatrixLegend({ scale }: { readonly scale: MatrixScale }): JSX.Element {
  const ramp = rampOf(scale, theme.value);
  const stops = Array.from({ length: STOPS + 1 }, (_, i) => rampColour(ramp, i / STOPS));
  return (
    <div class="debug-legend">
      <span>{formatNumber(scale.low, 3)}</span>
      <i style={{ background: `linear-gradient(to right, ${stops.join(", ")})` }} />
      <span>{formatNumber(scale.high, 3)}</span>
      <span class="heat-swatch">
        <i class="debug-legend-bad" /> NaN or Inf
      </span>
    </div>
  );
}
