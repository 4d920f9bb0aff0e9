import { expect, test } from "vitest";
import { generator } from "./graph-cases";
import { layersOf } from "./graph-layers";
import { layoutOf } from "./graph-layout";
import type { Box, Net } from "./graph-level";
import { crossings, orderOf } from "./graph-order";
import { nearestRising } from "./graph-place";

interface Case {
  readonly boxes: Box[];
  readonly nets: Net[];
}

function anyLevel(size: number, nets: number, seed: number): Case {
  const random = generator(seed);
  const box = (): number => Math.floor(random() * size);
  return {
    boxes: Array.from({ length: size }, () => ({ width: 20 + random() * 200, height: 20 + random() * 300 })),
    nets: Array.from({ length: nets }, () => ({
      source: { box: box(), shift: random() * 10 },
      targets: Array.from({ length: 1 + Math.floor(random() * 3) }, () => ({ box: box(), shift: random() * -10 })),
    })).map((net) => ({ ...net, targets: net.targets.filter((target) => target.box !== net.source.box) })),
  };
}

function overlaps({ boxes, nets }: Case): number {
  const { x, y } = layoutOf(boxes, nets);
  let found = 0;
  for (const [a, first] of boxes.entries()) {
    for (const [b, second] of boxes.entries()) {
      if (a >= b) continue;
      const apart = (start: Float64Array, size: "width" | "height"): boolean =>
        (start[a] ?? 0) + first[size] <= (start[b] ?? 0) + 1e-6 ||
        (start[b] ?? 0) + second[size] <= (start[a] ?? 0) + 1e-6;
      if (!apart(x, "width") && !apart(y, "height")) found++;
    }
  }
  return found;
}

test("no box lies over another, whatever is connected", () => {
  for (let seed = 0; seed < 40; seed++) expect(overlaps(anyLevel(2 + seed * 2, seed * 3, seed))).toBe(0);
});

test("every box lies inside of the picture's size", () => {
  for (let seed = 0; seed < 20; seed++) {
    const { boxes, nets } = anyLevel(30, 40, seed);
    const { x, y, width, height } = layoutOf(boxes, nets);
    for (const [box, size] of boxes.entries()) {
      expect(x[box]).toBeGreaterThanOrEqual(-1e-6);
      expect(y[box]).toBeGreaterThanOrEqual(-1e-6);
      expect((x[box] ?? 0) + size.width).toBeLessThanOrEqual(width + 1e-6);
      expect((y[box] ?? 0) + size.height).toBeLessThanOrEqual(height + 1e-6);
    }
  }
});

test("without a cycle every line goes down, from below its source to above its target", () => {
  const random = generator(7);
  const boxes = Array.from({ length: 60 }, () => ({ width: 100, height: 40 }));
  const nets = Array.from({ length: 100 }, (): Net => {
    const source = Math.floor(random() * 59);
    return {
      source: { box: source, shift: 0 },
      targets: [{ box: source + 1 + Math.floor(random() * (59 - source)), shift: 0 }],
    };
  });
  const { lines, y } = layoutOf(boxes, nets);
  for (const { goesUp, points, net, ends, isStart, isEnd } of lines) {
    expect(goesUp).toBe(false);
    const target = nets[net]?.targets[ends[0] ?? 0]?.box ?? 0;
    if (isStart) expect(points[1]).toBeCloseTo((y[nets[net]?.source.box ?? 0] ?? 0) + 40);
    if (isEnd) expect(points.at(-1)).toBeCloseTo(y[target] ?? 0);
    const heights = points.filter((_, index) => index % 2);
    for (const [place, height] of heights.entries())
      expect(height).toBeGreaterThanOrEqual((heights[place - 1] ?? 0) - 1e-6);
  }
});

test("a cycle is cut where it comes back to the box that ran first", () => {
  const { layerOf, goesUp } = layersOf(3, [
    { source: 0, target: 1 },
    { source: 1, target: 2 },
    { source: 2, target: 0 },
  ]);
  expect([...layerOf]).toEqual([0, 1, 2]);
  expect(goesUp).toEqual([false, false, true]);
});

test("the ends of every line are in different layers, cycles or not", () => {
  for (let seed = 0; seed < 50; seed++) {
    const { boxes, nets } = anyLevel(20, 40, seed);
    const pairs = nets.flatMap(({ source, targets }) =>
      targets.map((target) => ({ source: source.box, target: target.box })),
    );
    const { layerOf, goesUp } = layersOf(boxes.length, pairs);
    for (const [index, { source, target }] of pairs.entries()) {
      const steps = (layerOf[target] ?? 0) - (layerOf[source] ?? 0);
      expect(goesUp[index] ? -steps : steps).toBeGreaterThan(0);
    }
  }
});

test("a source stands right above the box that reads it", () => {
  const { layerOf } = layersOf(5, [
    { source: 0, target: 1 },
    { source: 1, target: 2 },
    { source: 2, target: 3 },
    { source: 4, target: 3 },
  ]);
  expect(layerOf[4]).toBe(2);
});

test("two crossed pairs are uncrossed", () => {
  const layers = orderOf({
    layers: [
      [0, 1],
      [2, 3],
    ],
    above: [[], [], [1], [0]],
    below: [[3], [2], [], []],
    spots: 4,
  });
  const place = new Float64Array(4);
  for (const layer of layers) for (const [at, spot] of layer.entries()) place[spot] = at;
  expect(crossings(layers, [[3], [2], [], []], place)).toBe(0);
});

test("crossings are counted as comparing all pairs of lines does", () => {
  const random = generator(3);
  const below = Array.from({ length: 12 }, () => Array.from({ length: 3 }, () => 12 + Math.floor(random() * 12)));
  const place = Float64Array.from({ length: 24 }, (_, spot) => spot % 12);
  const lines = below.flatMap((ends, upper) => ends.map((end) => [upper, end - 12] as const));
  let expected = 0;
  for (const [a, b] of lines) for (const [c, d] of lines) if (a < c && b > d) expected++;
  const spots = Array.from({ length: 12 }, (_, spot) => spot);
  expect(crossings([spots, spots.map((spot) => spot + 12)], below, place)).toBe(expected);
});

test("wishes that collide are met halfway", () => {
  const wishes = [
    { wish: 3, weight: 1 },
    { wish: 1, weight: 1 },
    { wish: 5, weight: 1 },
    { wish: 4, weight: 3 },
  ];
  expect(nearestRising(wishes)).toEqual([2, 2, 4.25, 4.25]);
});

test("a chain is one straight column, and a line past it is straight too", () => {
  const boxes = Array.from({ length: 8 }, () => ({ width: 100, height: 40 }));
  const chain = Array.from(
    { length: 7 },
    (_, box): Net => ({
      source: { box, shift: 0 },
      targets: [{ box: box + 1, shift: 0 }],
    }),
  );
  const nets = chain.map((net, index) =>
    index === 0 ? { ...net, targets: [...net.targets, { box: 6, shift: 0 }] } : net,
  );
  const { x, lines } = layoutOf(boxes, nets);
  expect(new Set([...x].map((value) => value.toFixed(3))).size).toBe(1);
  const skip = lines.find(({ net, isEnd }) => net === 0 && !isEnd);
  const corners = (skip?.points ?? []).filter((_, index) => index % 2 === 0).slice(2);
  expect(corners.length).toBeGreaterThan(8);
  expect(new Set(corners.map((value) => value.toFixed(3))).size).toBe(1);
});

test("one output that many read has one trunk, and a branch to each of them", () => {
  const boxes = Array.from({ length: 6 }, () => ({ width: 100, height: 40 }));
  const chain = Array.from(
    { length: 5 },
    (_, box): Net => ({
      source: { box, shift: 0 },
      targets: [{ box: box + 1, shift: 0 }],
    }),
  );
  const reader = (box: number): { box: number; shift: number } => ({ box, shift: 0 });
  const { lines } = layoutOf(boxes, [...chain, { source: reader(0), targets: [reader(3), reader(4), reader(5)] }]);
  const pieces = lines.filter(({ net }) => net === 5);
  expect(pieces.filter(({ isEnd }) => isEnd).map(({ ends }) => ends)).toEqual([[0], [1], [2]]);
  expect(pieces.filter(({ isEnd }) => !isEnd).map(({ ends }) => ends)).toEqual([[0, 1, 2], [1, 2], [2]]);
  const ends = new Set(pieces.map(({ points }) => points.slice(-2).map(Math.round).join()));
  for (const { points, isStart } of pieces)
    if (!isStart) expect(ends).toContain(points.slice(0, 2).map(Math.round).join());
});

test("a hundred boxes that all read each other stay a matter of few points", () => {
  const boxes = Array.from({ length: 100 }, () => ({ width: 100, height: 40 }));
  const nets = boxes.map(
    (_, box): Net => ({
      source: { box, shift: 0 },
      targets: boxes.slice(box + 1).map((_, next) => ({ box: box + 1 + next, shift: 0 })),
    }),
  );
  const { lines } = layoutOf(boxes, nets);
  expect(lines.reduce((sum, { points }) => sum + points.length, 0)).toBeLessThan(100 * 100 * 20);
});

test("the same level is laid out the same way each time", () => {
  const { boxes, nets } = anyLevel(80, 120, 11);
  expect(layoutOf(boxes, nets)).toEqual(layoutOf(boxes, nets));
});

test("pins lie at the borders, even for what runs before everything else", () => {
  const boxes: Box[] = [
    { width: 0, height: 0, pin: "top" },
    { width: 50, height: 20 },
    { width: 50, height: 20 },
    { width: 0, height: 0, pin: "bottom" },
  ];
  const touch = (box: number): { box: number; shift: number } => ({ box, shift: 0 });
  const { y, height } = layoutOf(boxes, [
    { source: touch(0), targets: [touch(2)] },
    { source: touch(1), targets: [touch(2), touch(3)] },
  ]);
  expect(y[0]).toBe(0);
  expect(y[3]).toBe(height);
});

test("5000 boxes that are connected at random are laid out with a bounded number of corners", () => {
  const { boxes, nets } = anyLevel(5000, 8000, 5);
  const { lines, width } = layoutOf(boxes, nets);
  const corners = lines.reduce((sum, { points }) => sum + Math.max(points.length / 4 - 2, 0), 0);
  expect(width).toBeGreaterThan(0);
  expect(corners).toBeLessThanOrEqual(20_000 * 3);
  expect(lines.some(({ points }) => points.length > 0)).toBe(true);
});
