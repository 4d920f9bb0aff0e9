/** The whole picture: levels laid out inside of each other, and the lines between what is seen. */

import { type Expansion, standIn } from "./graph-expansion";
import { type Layout, layoutOf } from "./graph-layout";
import type { Box, Net, Size } from "./graph-level";
import { ancestry, type GraphTree, type Item, NO_ITEM } from "./graph-tree";

export interface SceneBox {
  readonly item: Item;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** An open container: a frame around its children. */
  readonly isOpen: boolean;
  readonly depth: number;
}

/** A piece of the way of data from `source` to all of `targets`; see `Line.points`. */
export interface SceneLine {
  readonly source: number;
  readonly targets: readonly number[];
  readonly points: readonly number[];
  readonly goesUp: boolean;
  /** It ends here, and not at the border of a frame. */
  readonly hasArrow: boolean;
}

export interface Scene {
  readonly width: number;
  readonly height: number;
  /** Frames before what they hold. */
  readonly boxes: readonly SceneBox[];
  readonly byItem: ReadonlyMap<number, SceneBox>;
  readonly lines: readonly SceneLine[];
  /** Lines for which there was no room. */
  readonly hidden: number;
}

export interface SceneSizes {
  /** Of a box that is closed or holds nothing. */
  readonly sizeOf: (item: Item) => Size;
  /** Height of a frame's title, and the space around its children. */
  readonly title: number;
  readonly padding: number;
  /** A frame is at least so wide, for its title. */
  readonly leastWidth: (item: Item) => number;
}

/** Stand-ins for the border of a level in its nets; items count from 0. */
const TOP = -2;
const BOTTOM = -3;

/** For each end in a level (an item, or its border below): whom the net reaches by it. */
interface LevelNet {
  readonly origin: number;
  readonly from: number;
  readonly ends: Map<number, number[]>;
}

interface Level {
  readonly children: readonly number[];
  readonly nets: Map<number, LevelNet>;
}

interface PlacedLevel {
  readonly layout: Layout;
  readonly places: ReadonlyMap<number, number>;
  readonly nets: readonly LevelNet[];
  /** Where lines enter and leave, by origin: from the left border of the content. */
  readonly entries: ReadonlyMap<number, number>;
  readonly exits: ReadonlyMap<number, number>;
  readonly width: number;
  readonly height: number;
}

export function sceneOf(tree: GraphTree, open: Expansion, sizes: SceneSizes): Scene {
  const levels = levelsOf(tree, open);
  for (const [source, targets] of netsOf(tree, open))
    for (const target of targets) spread(tree.items, levels, source, target);
  const placed = new Map<number, PlacedLevel>();
  // Inner levels come after outer ones: from the back, each is as large as what it holds.
  for (const id of [...levels.keys()].reverse()) placed.set(id, placeLevel(tree.items, id, levels, placed, sizes));
  return new Assembly(tree.items, placed, sizes).scene();
}

function levelsOf(tree: GraphTree, open: Expansion): Map<number, Level> {
  const levels = new Map<number, Level>([[NO_ITEM, { children: tree.roots, nets: new Map() }]]);
  for (const [, { children }] of levels) {
    for (const id of children) {
      const item = tree.items[id];
      if (item && item.children.length > 0 && open.has(id))
        levels.set(id, { children: item.children, nets: new Map() });
    }
  }
  return levels;
}

/** Who is read by whom, as far as both are seen. */
function netsOf(tree: GraphTree, open: Expansion): Map<number, Set<number>> {
  const nets = new Map<number, Set<number>>();
  const known = new Map<number, number>();
  const shown = (id: number): number => {
    const found = known.get(id) ?? standIn(tree.items, open, id);
    known.set(id, found);
    return found;
  };
  for (const { source, target } of tree.links) {
    const [from, to] = [shown(source), shown(target)];
    if (from === to) continue;
    const targets = nets.get(from) ?? new Set();
    nets.set(from, targets);
    targets.add(to);
  }
  return nets;
}

/** Writes the way from source to target into each level that it passes. */
function spread(items: readonly Item[], levels: ReadonlyMap<number, Level>, source: number, target: number): void {
  const up = [...ancestry(items, source), NO_ITEM];
  const down = [...ancestry(items, target), NO_ITEM];
  let [i, j] = [up.length - 1, down.length - 1];
  while (i > 0 && j > 0 && up[i - 1] === down[j - 1]) [i, j] = [i - 1, j - 1];
  // Inside of level up[i] === down[j] they part; where one holds the other, its border is the end.
  const add = (level: number, from: number, to: number): void => {
    const nets = levels.get(level)?.nets;
    const net = nets?.get(source) ?? { origin: source, from, ends: new Map<number, number[]>() };
    nets?.set(source, net);
    net.ends.set(to, [...(net.ends.get(to) ?? []), target]);
  };
  for (let at = 1; at < i; at++) add(up[at] ?? NO_ITEM, up[at - 1] ?? NO_ITEM, BOTTOM);
  add(up[i] ?? NO_ITEM, i > 0 ? (up[i - 1] ?? NO_ITEM) : TOP, j > 0 ? (down[j - 1] ?? NO_ITEM) : BOTTOM);
  for (let at = j - 1; at >= 1; at--) add(down[at] ?? NO_ITEM, TOP, down[at - 1] ?? NO_ITEM);
}

function placeLevel(
  items: readonly Item[],
  id: number,
  levels: ReadonlyMap<number, Level>,
  placed: ReadonlyMap<number, PlacedLevel>,
  sizes: SceneSizes,
): PlacedLevel {
  const level = levels.get(id) ?? { children: [], nets: new Map<number, LevelNet>() };
  const nets = [...level.nets.values()];
  const entering = nets.filter(({ from }) => from === TOP).map(({ origin }) => origin);
  const leaving = nets.filter(({ ends }) => ends.has(BOTTOM)).map(({ origin }) => origin);
  const boxes: Box[] = [
    ...entering.map((): Box => ({ width: 0, height: 0, pin: "top" })),
    ...level.children.map((child): Box => placed.get(child) ?? sizes.sizeOf(items[child] as Item)),
    ...leaving.map((): Box => ({ width: 0, height: 0, pin: "bottom" })),
  ];
  const places = new Map(level.children.map((child, place) => [child, place + entering.length]));
  const pins = new Map(leaving.map((origin, place) => [origin, place + entering.length + level.children.length]));
  const flat = nets.map(
    (net, place): Net => ({
      source:
        net.from === TOP
          ? { box: entering.indexOf(net.origin), shift: 0 }
          : { box: places.get(net.from) ?? 0, shift: shiftOf(placed.get(net.from), "exits", net.origin) },
      targets: [...net.ends.keys()].map((end) =>
        end === BOTTOM
          ? { box: pins.get(nets[place]?.origin ?? 0) ?? 0, shift: 0 }
          : { box: places.get(end) ?? 0, shift: shiftOf(placed.get(end), "entries", net.origin) },
      ),
    }),
  );
  const layout = layoutOf(boxes, flat);
  const least = id === NO_ITEM ? 0 : sizes.leastWidth(items[id] as Item);
  const width = Math.max(layout.width, least - 2 * sizes.padding);
  const indent = (width - layout.width) / 2 + (id === NO_ITEM ? 0 : sizes.padding);
  const centred = {
    ...layout,
    x: layout.x.map((x) => x + indent),
    lines: layout.lines.map((line) => ({
      ...line,
      points: line.points.map((value, index) => (index % 2 ? value : value + indent)),
    })),
  };
  const [border, title] = id === NO_ITEM ? [0, 0] : [sizes.padding, sizes.title];
  return {
    layout: centred,
    places,
    nets,
    entries: new Map(entering.map((origin, place) => [origin, centred.x[place] ?? 0])),
    exits: new Map(leaving.map((origin) => [origin, centred.x[pins.get(origin) ?? 0] ?? 0])),
    width: width + 2 * border,
    height: layout.height + title + border,
  };
}

function shiftOf(level: PlacedLevel | undefined, ports: "entries" | "exits", origin: number): number {
  const at = level?.[ports].get(origin);
  return level && at !== undefined ? at - level.width / 2 : 0;
}

class Assembly {
  private readonly boxes: SceneBox[] = [];
  private readonly lines: SceneLine[] = [];
  private hidden = 0;

  constructor(
    private readonly items: readonly Item[],
    private readonly placed: ReadonlyMap<number, PlacedLevel>,
    private readonly sizes: SceneSizes,
  ) {}

  scene(): Scene {
    const waiting = [{ id: NO_ITEM, x: 0, y: 0, depth: 0 }];
    for (const { id, x, y, depth } of waiting) {
      const level = this.placed.get(id);
      if (!level) continue;
      const title = id === NO_ITEM ? 0 : this.sizes.title;
      for (const [child, place] of level.places) {
        const box = this.boxOf(
          child,
          x + (level.layout.x[place] ?? 0),
          y + title + (level.layout.y[place] ?? 0),
          depth,
        );
        this.boxes.push(box);
        if (box.isOpen) waiting.push({ id: child, x: box.x, y: box.y, depth: depth + 1 });
      }
      this.addLines(id, level, x, y + title);
    }
    const root = this.placed.get(NO_ITEM);
    const byItem = new Map(this.boxes.map((box) => [box.item.id, box]));
    return {
      width: root?.width ?? 0,
      height: root?.height ?? 0,
      boxes: this.boxes,
      byItem,
      lines: this.lines,
      hidden: this.hidden,
    };
  }

  private boxOf(id: number, x: number, y: number, depth: number): SceneBox {
    const item = this.items[id] as Item;
    const level = this.placed.get(id);
    const { width, height } = level ?? this.sizes.sizeOf(item);
    return { item, x, y, width, height, isOpen: level !== undefined, depth };
  }

  private addLines(id: number, level: PlacedLevel, x: number, y: number): void {
    const frameTop = y - this.sizes.title;
    const entries: [number, number[]][][] = [];
    for (const line of level.layout.lines) {
      const net = level.nets[line.net];
      if (!net || line.points.length === 0) {
        this.hidden += 1;
        continue;
      }
      const all = entries[line.net] ?? [...net.ends];
      entries[line.net] = all;
      const ends = line.ends.map((place) => all[place]).filter((end) => end !== undefined);
      const points = line.points.map((value, index) => value + (index % 2 ? y : x));
      // Pins lie below the title; lines go on to the border of the frame.
      if (net.from === TOP && line.isStart && id !== NO_ITEM) points[1] = frameTop;
      if (line.isEnd && ends[0]?.[0] === BOTTOM && id !== NO_ITEM) points[points.length - 1] = frameTop + level.height;
      const targets = ends.flatMap(([, found]) => found);
      const isThere = ends.some(([end, found]) => found.includes(end === BOTTOM ? id : end));
      this.lines.push({
        source: net.origin,
        targets,
        points,
        goesUp: line.goesUp,
        hasArrow: isThere && (line.goesUp ? line.isStart : line.isEnd),
      });
    }
  }
}
