/** The connected boxes of one level of the picture: layers from top to bottom, lines between them. */

import { layersOf, type Pair } from "./graph-layers";
import { orderOf } from "./graph-order";
import { type PlacedLine, placesOf } from "./graph-place";

/** Boxes are numbered in the order of execution. A pin has no size: lines enter or leave the level there. */
export interface Box {
  readonly width: number;
  readonly height: number;
  readonly pin?: "top" | "bottom";
}

/** Where a line touches a box: so far right of its middle. */
export interface Touch {
  readonly box: number;
  readonly shift: number;
}

/** One output and all who read it: their lines share a trunk, so a block that everybody reads stays readable. */
export interface Net {
  readonly source: Touch;
  readonly targets: readonly Touch[];
}

export interface Line {
  readonly net: number;
  readonly target: number;
  /** x and y of an even number of points: straight from the first to the second, curved to the third, and so on.
   * Always downwards; empty where there was no room for the line. */
  readonly points: readonly number[];
  /** Data flows up, against the points. */
  readonly goesUp: boolean;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** More corners than this would take seconds; the longest lines are left out then. */
const MOST_CORNERS = 20_000;
const SPACE_BETWEEN_LAYERS = 23;
const SPACE_AT_PINS = 16;
const SPACE_PER_LINE = 1.2;
const MOST_SPACE_FOR_LINES = 40;

/** A way of a net from layer to layer: the spots it goes through. */
interface Way {
  readonly net: number;
  readonly from: Touch;
  readonly to: Touch;
  readonly target: number;
  readonly goesUp: boolean;
  spots: number[] | null;
}

export class LayeredLevel {
  private readonly layerOf: Int32Array;
  private readonly ways: Way[] = [];
  private readonly layers: number[][];
  /** Of each corner: its layer; corners are numbered on from the boxes. */
  private readonly cornerLayers: number[] = [];
  private readonly trunks: number[][] = [];
  private x: Float64Array = new Float64Array(0);
  private tops = new Float64Array(0);
  private bottoms = new Float64Array(0);
  private boxTops: Float64Array = new Float64Array(0);

  constructor(private readonly boxes: readonly Box[], private readonly nets: readonly Net[], isTied: Uint8Array) {
    const pairs = pairsOf(nets);
    const { layerOf, goesUp } = layersOf(boxes.length, pairs);
    this.layerOf = layerOf;
    const count = this.movePins(isTied);
    this.layers = Array.from({ length: count }, () => []);
    for (const [box] of boxes.entries()) if (isTied[box]) this.layers[layerOf[box] ?? 0]?.push(box);
    this.findWays(goesUp);
    this.makeTrunks();
  }

  /** Sets the left upper corners of the boxes that are connected. */
  place(x: Float64Array, y: Float64Array): Size {
    const lines = this.placedLines();
    this.order(lines);
    const width = Float64Array.from({ length: this.spots }, (_, spot) => this.boxes[spot]?.width ?? 0);
    const isCorner = Uint8Array.from({ length: this.spots }, (_, spot) => (spot < this.boxes.length ? 0 : 1));
    this.x = placesOf({ layers: this.layers, width, isCorner, lines, trunks: this.trunks });
    const [left, right] = this.extent(width);
    for (let spot = 0; spot < this.x.length; spot++) this.x[spot] = (this.x[spot] ?? 0) - left;
    const height = this.placeLayers(lines);
    for (const layer of this.layers) for (const spot of layer) this.putBox(spot, x, y);
    this.boxTops = y;
    return { width: Math.max(right - left, 0), height };
  }

  lines(): Line[] {
    return this.ways.map(({ net, from, to, target, goesUp, spots }) => {
      const points = spots === null ? [] : this.pointsOf(from, spots, to);
      return { net, target, goesUp, points };
    });
  }

  private get spots(): number {
    return this.boxes.length + this.cornerLayers.length;
  }

  /** Pins to the very top and bottom; the number of layers. */
  private movePins(isTied: Uint8Array): number {
    const { boxes, layerOf } = this;
    const isPin = (box: number): boolean => boxes[box]?.pin !== undefined;
    const inner = boxes.flatMap((_, box) => (isTied[box] && !isPin(box) ? [box] : []));
    const hasTop = boxes.some(({ pin }, box) => pin === "top" && isTied[box]);
    const least = inner.reduce((low, box) => Math.min(low, layerOf[box] ?? 0), Infinity);
    const lift = inner.length > 0 ? (hasTop ? 1 : 0) - least : 0;
    let last = hasTop ? 0 : -1;
    for (const box of inner) last = Math.max(last, (layerOf[box] = (layerOf[box] ?? 0) + lift));
    for (const [box, { pin }] of boxes.entries()) if (pin) layerOf[box] = pin === "top" ? 0 : last + 1;
    return boxes.some(({ pin }, box) => pin === "bottom" && isTied[box]) ? last + 2 : last + 1;
  }

  private findWays(goesUp: readonly boolean[]): void {
    let pair = 0;
    for (const [net, { source, targets }] of this.nets.entries()) {
      for (const target of targets) {
        const up = goesUp[pair++] ?? false;
        this.ways.push({ net, from: up ? target : source, to: up ? source : target, target: target.box, goesUp: up, spots: null });
      }
    }
  }

  private spanOf({ from, to }: Way): number {
    return (this.layerOf[to.box] ?? 0) - (this.layerOf[from.box] ?? 0);
  }

  /** All downward ways of a net share one trunk of corners, one in each layer that they pass. */
  private makeTrunks(): void {
    const groups = new Map<string, Way[]>();
    for (const [index, way] of this.ways.entries()) {
      const key = way.goesUp ? `up ${index}` : `${way.net}`;
      const group = groups.get(key) ?? [];
      groups.set(key, group);
      group.push(way);
    }
    const longest = (group: readonly Way[]): number => group.reduce((most, way) => Math.max(most, this.spanOf(way)), 0);
    const byLength = [...groups.values()].map((group) => ({ group, span: longest(group) })).sort((a, b) => a.span - b.span);
    for (const { group, span } of byLength) {
      if (span < 1 || this.cornerLayers.length + span - 1 > MOST_CORNERS) continue;
      const trunk = this.trunk(this.layerOf[group[0]?.from.box ?? 0] ?? 0, span);
      for (const way of group) way.spots = [way.from.box, ...trunk.slice(0, this.spanOf(way) - 1), way.to.box];
    }
  }

  private trunk(layer: number, span: number): number[] {
    const corners: number[] = [];
    for (let at = layer + 1; at < layer + span; at++) {
      const corner = this.spots;
      this.cornerLayers.push(at);
      this.layers[at]?.push(corner);
      corners.push(corner);
    }
    if (corners.length > 1) this.trunks.push(corners);
    return corners;
  }

  private placedLines(): PlacedLine[] {
    const lines = new Map<string, PlacedLine>();
    for (const { from, to, spots } of this.ways) {
      for (let place = 1; place < (spots?.length ?? 0); place++) {
        const [upper, lower] = [spots?.[place - 1] ?? 0, spots?.[place] ?? 0];
        const upperShift = upper === from.box ? from.shift : 0;
        const lowerShift = lower === to.box ? to.shift : 0;
        lines.set(`${upper} ${lower} ${upperShift} ${lowerShift}`, { upper, lower, upperShift, lowerShift });
      }
    }
    return [...lines.values()];
  }

  private order(lines: readonly PlacedLine[]): void {
    const empty = (): number[][] => Array.from({ length: this.spots }, () => []);
    const [above, below] = [empty(), empty()];
    for (const { upper, lower } of lines) {
      above[lower]?.push(upper);
      below[upper]?.push(lower);
    }
    const ordered = orderOf({ layers: this.layers, above, below, spots: this.spots });
    for (const [index, layer] of ordered.entries()) this.layers[index] = layer;
  }

  private extent(width: Float64Array): [number, number] {
    let [left, right] = [Infinity, -Infinity];
    for (const spot of this.layers.flat()) {
      left = Math.min(left, (this.x[spot] ?? 0) - (width[spot] ?? 0) / 2);
      right = Math.max(right, (this.x[spot] ?? 0) + (width[spot] ?? 0) / 2);
    }
    return left <= right ? [left, right] : [0, 0];
  }

  private placeLayers(lines: readonly PlacedLine[]): number {
    const crossing = new Float64Array(this.layers.length);
    for (const { upper } of lines) {
      const layer = this.layerOfSpot(upper);
      crossing[layer] = (crossing[layer] ?? 0) + 1;
    }
    const heights = this.layers.map((layer) => layer.reduce((most, spot) => Math.max(most, this.boxes[spot]?.height ?? 0), 0));
    this.tops = new Float64Array(heights.length);
    this.bottoms = new Float64Array(heights.length);
    let y = 0;
    for (const [index, height] of heights.entries()) {
      this.tops[index] = y;
      this.bottoms[index] = y + height;
      const hasPins = height === 0 || heights[index + 1] === 0;
      const more = Math.min((crossing[index] ?? 0) * SPACE_PER_LINE, MOST_SPACE_FOR_LINES);
      y += height + (index + 1 < heights.length ? (hasPins ? SPACE_AT_PINS : SPACE_BETWEEN_LAYERS) + more : 0);
    }
    return y;
  }

  private layerOfSpot(spot: number): number {
    return (spot < this.boxes.length ? this.layerOf[spot] : this.cornerLayers[spot - this.boxes.length]) ?? 0;
  }

  private putBox(spot: number, x: Float64Array, y: Float64Array): void {
    const box = this.boxes[spot];
    if (!box) return;
    const layer = this.layerOfSpot(spot);
    x[spot] = (this.x[spot] ?? 0) - box.width / 2;
    y[spot] = ((this.tops[layer] ?? 0) + (this.bottoms[layer] ?? 0) - box.height) / 2;
  }

  private pointsOf(from: Touch, spots: readonly number[], to: Touch): number[] {
    const points: number[] = [];
    for (const [place, spot] of spots.entries()) {
      const layer = this.layerOfSpot(spot);
      const [top, bottom] = [this.tops[layer] ?? 0, this.bottoms[layer] ?? 0];
      const isFirst = place === 0;
      const isLast = place === spots.length - 1;
      const x = (this.x[spot] ?? 0) + (isFirst ? from.shift : isLast ? to.shift : 0);
      const boxTop = this.boxTops[spot] ?? 0;
      const start = isFirst ? boxTop + (this.boxes[spot]?.height ?? 0) : top;
      points.push(x, start, x, isLast ? boxTop : bottom);
    }
    return points;
  }
}

export function pairsOf(nets: readonly Net[]): Pair[] {
  return nets.flatMap(({ source, targets }) => targets.map((target) => ({ source: source.box, target: target.box })));
}
