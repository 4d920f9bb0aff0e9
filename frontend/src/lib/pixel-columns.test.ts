import { expect, test } from "vitest";
import { pixelColumns } from "./pixel-columns";

function columns(points: readonly (readonly [number, number])[]): (readonly [number, number, number])[] {
  const found = pixelColumns(
    0,
    points.length,
    (index) => points[index]?.[0] ?? 0,
    (index) => points[index]?.[1] ?? 0,
  );
  return found.map(({ left, top, bottom }) => [left, top, bottom]);
}

test("all points of a pixel are one column", () => {
  // biome-ignore format: points on one line
  expect(columns([[3.1, 5], [3.5, 9], [3.9, 2]])).toEqual([[3, 2, 9]]);
});

test("neighbours meet half way between their points", () => {
  // biome-ignore format: points on one line
  expect(columns([[0.5, 10], [1.5, 20], [2.5, 0]])).toEqual([[0, 10, 15], [1, 10, 20], [2, 0, 10]]);
});

test("no points are no columns, and one is one", () => {
  expect(columns([])).toEqual([]);
  expect(columns([[7.2, 4]])).toEqual([[7, 4, 4]]);
});
