import { describe, expect, it } from "vitest";
import type { Matrix } from "../wire/debugger-types";
import { indexOf, matrixCellAt, matrixFrame, matrixRows, matrixScale, valueAt } from "./debugger-matrix";

const values = Float64Array.of(1, 2, 3, 4, 5, 6);
const matrix: Matrix = { height: 2, width: 3, rows: [4, 2], columns: [0, 1], values };

describe("colours of cells", () => {
  it("have zero in the middle when there are values on both sides", () => {
    const scale = matrixScale(Float64Array.of(-4, 0, 2));
    expect([scale.isSigned, scale.place(0), scale.place(-4), scale.place(4)]).toEqual([true, 0.5, 0, 1]);
  });

  it("go from the least to the greatest value otherwise", () => {
    const scale = matrixScale(Float64Array.of(2, 3, 6));
    expect([scale.isSigned, scale.place(2), scale.place(6)]).toEqual([false, 0, 1]);
  });

  it("are not spoilt by one odd value, or by what is no number", () => {
    const values = Float64Array.from({ length: 300 }, (_, i) => (i === 7 ? 1e9 : i === 8 ? NaN : i / 300));
    const scale = matrixScale(values);
    expect(scale.high).toBeLessThan(1.01);
    expect(scale.place(NaN)).toBeNaN();
  });

  it("of nothing, and of one value, are defined", () => {
    expect(matrixScale(new Float64Array(0)).place(0.5)).toBe(0.5);
    expect(matrixScale(Float64Array.of(7, 7)).place(7)).toBe(0.5);
    expect(matrixScale(Float64Array.of(-7, -7)).place(-7)).toBe(0);
    expect(matrixScale(Float64Array.of(Infinity, NaN)).low).toBe(0);
  });
});

describe("cells", () => {
  const frame = matrixFrame(matrix, 400);

  it("are found under the pointer, with their value and their index", () => {
    const cell = matrixCellAt(matrix, frame, frame.left + 2.5 * frame.cellWidth, frame.top + 1.5 * frame.cellHeight);
    expect(cell).toEqual({ row: 1, column: 2 });
    expect(valueAt(matrix, { row: 1, column: 2 })).toBe(6);
    expect(indexOf(matrix, { row: 1, column: 2 })).toEqual([6, 2]);
  });

  it("end where the matrix ends", () => {
    expect(matrixCellAt(matrix, frame, frame.left - 1, frame.top + 1)).toBeNull();
    expect(matrixCellAt(matrix, frame, frame.left + 3.1 * frame.cellWidth, frame.top + 1)).toBeNull();
  });
});

it("a table names rows and columns by their index", () => {
  expect(matrixRows(matrix)).toEqual([
    ["row", 0, 1, 2],
    [4, 1, 2, 3],
    [6, 4, 5, 6],
  ]);
});
