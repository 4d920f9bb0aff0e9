import { describe, expect, it } from "vitest";
import { commonCells, cutAt, drawnWidth, edgesOf, sameGrid, splitZeros, spread, totalOf, type Bins } from "./rebin";
import { valueAxis, type ValueScale } from "./value-axis";

function bins(rows: [lower: number, upper: number, count: number][]): Bins {
  return {
    lower: Float64Array.from(rows, (row) => row[0]),
    upper: Float64Array.from(rows, (row) => row[1]),
    counts: Float64Array.from(rows, (row) => row[2]),
  };
}

/** Bins as the sketch makes them: eight to each power of two, both signs, some left out, with big odd counts. */
function sketch(seed: number, size: number): Bins {
  let state = seed;
  const random = (): number => {
    state = (state * 16807) % 2147483647;
    return state / 2147483647;
  };
  const rows = new Map<number, [number, number, number]>();
  for (let i = 0; i < size; i++) {
    const exponent = Math.floor(random() * 40) - 30;
    const lower = (1 + Math.floor(random() * 8) / 8) * 2 ** exponent;
    const upper = lower + 2 ** exponent / 8;
    const count = Math.floor(random() * 1e12) * 2 + 1;
    if (random() < 0.5) rows.set(lower, [lower, upper, count]);
    else rows.set(-lower, [-upper, -lower, count]);
  }
  return bins([...rows.values()].sort((a, b) => a[0] - b[0]));
}

const SCALES: ValueScale[] = ["linear", "symlog", "log"];

describe.each(SCALES)("cells on a %s axis", (scale) => {
  it.each([1, 0.5, 20])("conserve every single count when bins join (least width %d)", (least) => {
    for (let seed = 1; seed < 30; seed++) {
      const [a, b] = [sketch(seed, 300), sketch(seed * 77 + 1, 200)];
      const axis = valueAxis(scale, -600, 600, 1e-6);
      const cells = commonCells([a, b], (value) => axis.place(value) * 700, least);
      expect(totalOf(cells.counts[0] ?? new Float64Array())).toBe(totalOf(a.counts));
      expect(totalOf(cells.counts[1] ?? new Float64Array())).toBe(totalOf(b.counts));
      expect(cells.bins.reduce((sum, n) => sum + n, 0)).toBe(a.counts.length + b.counts.length);
    }
  });

  it("rise, never overlap, and lie where their bins do", () => {
    const axis = valueAxis(scale, -600, 600, 1e-6);
    const cells = commonCells([sketch(5, 300)], (value) => axis.place(value) * 700, 1);
    for (let i = 0; i < cells.lower.length; i++) {
      expect(cells.left[i]).toBeCloseTo(axis.place(cells.lower[i] ?? 0) * 700, 9);
      expect(cells.upper[i]).toBeGreaterThanOrEqual(cells.lower[i] ?? 0);
      if (i > 0) expect(cells.lower[i]).toBeGreaterThanOrEqual(cells.upper[i - 1] ?? 0);
    }
  });
});

it("leaves bins alone that are wide enough to be seen", () => {
  const cells = commonCells(
    [
      bins([
        [0, 1, 3],
        [1, 2, 4],
        [5, 6, 1],
      ]),
    ],
    (value) => value * 10,
    2,
  );
  expect([...(cells.counts[0] ?? [])]).toEqual([3, 4, 1]);
  expect([...cells.bins]).toEqual([1, 1, 1]);
});

it("joins narrow bins with each other, and not with a wide one beside them", () => {
  const cells = commonCells(
    [
      bins([
        [0, 0.1, 3],
        [0.1, 0.3, 4],
        [0.3, 9, 100],
      ]),
    ],
    (value) => value,
    1,
  );
  expect([...(cells.counts[0] ?? [])]).toEqual([7, 100]);
});

it("leaves no scrap where narrow bins end and wide ones begin", () => {
  const cells = commonCells(
    [
      bins([
        [0, 0.6, 1],
        [0.6, 1.2, 2],
        [1.2, 1.5, 4],
        [1.5, 4, 8],
      ]),
    ],
    (value) => value,
    1,
  );
  expect([...(cells.counts[0] ?? [])]).toEqual([7, 8]);
});

it("draws a thin cell that stands alone a pixel wide, and others as wide as they are", () => {
  const cells = commonCells(
    [
      bins([
        [0, 3, 1],
        [3, 3.4, 1],
        [3.4, 6, 1],
        [8, 8.01, 1],
      ]),
    ],
    (value) => value,
    1,
  );
  expect([0, 1, 2, 3].map((i) => Number(drawnWidth(cells, i).toFixed(6)))).toEqual([3, 0.4, 2.6, 1]);
});

it("takes bins of two sketches for one where the extremes cut their outer edges", () => {
  const cells = commonCells([bins([[0.13, 0.14, 3]]), bins([[0.125, 0.135, 5]])], (value) => value, 0);
  expect(cells.lower.length).toBe(1);
  expect(cells.counts.map((column) => [...column])).toEqual([[3], [5]]);
});

it("knows bins of one grid from bins of two", () => {
  expect(
    sameGrid(
      bins([
        [0, 1, 1],
        [1, 2, 1],
      ]),
      bins([
        [0.5, 1, 1],
        [2, 3, 1],
      ]),
    ),
  ).toBe(true);
  expect(
    sameGrid(
      bins([
        [0, 1, 1],
        [1, 2, 1],
      ]),
      bins([[0.5, 1.5, 1]]),
    ),
  ).toBe(false);
});

it("cuts bins of two grids at the edges of both, keeping the total", () => {
  const [a, b] = [
    bins([
      [0, 1, 8],
      [1, 2, 4],
    ]),
    bins([[0.5, 1.5, 10]]),
  ];
  const cut = cutAt(a, edgesOf(b));
  expect([...cut.lower]).toEqual([0, 0.5, 1, 1.5]);
  expect([...cut.counts]).toEqual([4, 4, 2, 2]);
  expect(sameGrid(cut, cutAt(b, edgesOf(a)))).toBe(true);
});

it("takes exact zeros of both signs out and counts them", () => {
  const { bins: rest, zeros } = splitZeros(
    bins([
      [-1, -0.5, 2],
      [-0, -0, 3],
      [0, 0, 4],
      [0, 1e-39, 5],
    ]),
  );
  expect(zeros).toBe(7);
  expect([...rest.counts]).toEqual([2, 5]);
});

it("shares bins out over rows, what lies inside adding up to the total", () => {
  const made = sketch(11, 400);
  const axis = valueAxis("log", -1100, 1100, 1e-6);
  for (const rows of [1, 7, 200]) {
    const total = totalOf(spread(made, axis.place, rows));
    expect(total / totalOf(made.counts)).toBeCloseTo(1, 10);
  }
});

it("gives a row what of a bin lies in it", () => {
  expect([
    ...spread(
      bins([
        [0.25, 0.75, 8],
        [0.5, 0.5, 2],
      ]),
      (value) => value,
      4,
    ),
  ]).toEqual([0, 4, 6, 0]);
  expect([...spread(bins([[-1, 1, 8]]), (value) => value, 2)]).toEqual([2, 2]);
});
