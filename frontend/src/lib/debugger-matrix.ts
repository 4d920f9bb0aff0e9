/** A slice of a tensor as cells: where they lie, and which colours their values have. */

import type { Matrix } from "../wire/debugger-types";
import type { CsvRow } from "../charts/export";
import { percentile } from "./heat-scale";

export interface MatrixScale {
  /** Zero is in the middle, and both arms are equally long. */
  readonly isSigned: boolean;
  readonly low: number;
  readonly high: number;
  /** 0 … 1 on the ramp, not limited; NaN for what is not finite. */
  place(value: number): number;
}

const OUTLIERS = 0.01;

/** A few odd values do not take the colours from all others. */
export function matrixScale(values: Float64Array): MatrixScale {
  const finite = values.filter(Number.isFinite).sort();
  const isSigned = (finite[0] ?? 0) < 0;
  let [low, high] = [percentile([...finite], OUTLIERS), percentile([...finite], 1 - OUTLIERS)];
  if (isSigned) {
    high = Math.max(Math.abs(low), Math.abs(high)) || Math.abs(finite[0] ?? 1) || 1;
    low = -high;
  }
  if (!Number.isFinite(low)) [low, high] = [0, 1];
  // All the same: the middle of the ramp.
  const [from, span] = high > low ? [low, high - low] : [low - 0.5, 1];
  const place = (value: number): number => (Number.isFinite(value) ? (value - from) / span : NaN);
  return { isSigned, low, high, place };
}

export interface MatrixFrame {
  readonly left: number;
  readonly top: number;
  /** In pixels. */
  readonly cellWidth: number;
  readonly cellHeight: number;
}

const LABELS = 40;
const HEAD = 18;
const LARGEST_CELL = { width: 64, height: 24 };
/** Space for the picture's own height, whatever the number of rows. */
const TALLEST = 360;

export function matrixFrame({ height, width }: Pick<Matrix, "height" | "width">, room: number): MatrixFrame {
  return {
    left: LABELS,
    top: HEAD,
    cellWidth: Math.min(LARGEST_CELL.width, (room - LABELS - 4) / Math.max(1, width)),
    cellHeight: cellHeight(height),
  };
}

function cellHeight(rows: number): number {
  return Math.min(LARGEST_CELL.height, TALLEST / Math.max(1, rows));
}

/** Of the whole picture. */
export function matrixHeight(rows: number): number {
  return Math.ceil(HEAD + rows * cellHeight(rows) + 4);
}

export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** null beside the cells. */
export function matrixCellAt(matrix: Matrix, frame: MatrixFrame, x: number, y: number): Cell | null {
  const column = Math.floor((x - frame.left) / frame.cellWidth);
  const row = Math.floor((y - frame.top) / frame.cellHeight);
  const isInside = column >= 0 && column < matrix.width && row >= 0 && row < matrix.height;
  return isInside ? { row, column } : null;
}

export function valueAt(matrix: Matrix, { row, column }: Cell): number {
  return matrix.values[row * matrix.width + column] ?? NaN;
}

/** Index in the slice, as what was thinned counts. */
export function indexOf(matrix: Matrix, { row, column }: Cell): readonly [row: number, column: number] {
  return [matrix.rows[0] + row * matrix.rows[1], matrix.columns[0] + column * matrix.columns[1]];
}

export function matrixRows(matrix: Matrix): CsvRow[] {
  const columns = Array.from({ length: matrix.width }, (_, column) => indexOf(matrix, { row: 0, column })[1]);
  const rows = Array.from({ length: matrix.height }, (_, row): CsvRow => {
    const values = [...matrix.values.subarray(row * matrix.width, (row + 1) * matrix.width)];
    return [indexOf(matrix, { row, column: 0 })[0], ...values];
  });
  return [["row", ...columns], ...rows];
}
