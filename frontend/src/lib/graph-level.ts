/** The connected boxes of one level of the picture: layers from top to bottom, lines between them. */

import { orderOf } from "./graph-order";
import { type PlacedLine, placesOf } from "./graph-place";
import { type Piece, type Ways, waysOf } from "./graph-ways";

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

/** A piece of a net on its way down; pieces that follow each other touch. */
export interface Line {
  readonly net: number;
  /** Places in the net's targets that are reached by it. */
  readonly ends: readonly number[];
  /** x and y of an even number of points: straight from the first to the second, curved to the third, and so on.
   * Always downwards; empty where there was no room for the line. */
  readonly points: readonly number[];
  /** Data flows up, against the points. */
  readonly goesUp: boolean;
  /** Whether it touches the net's source, and one of its targets. */
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

const SPACE_BETWEEN_LAYERS = 23;
const SPACE_AT_PINS = 16;
const SPACE_PER_LINE = 1.2;
const MOST_SPACE_FOR_LINES = 40;

export class LayeredLevel {
  private readonly ways: Ways;
  private x: Float64Array = new Float64Array(0);
  private tops = new Float64Array(0);
  private bottoms = new Float64Array(0);
  private boxTops: Float64Array = new Float64Array(0);

  constructor(
    private readonly boxes: readonly Box[],
    nets: readonly Net[],
    isTied: Uint8Array,
  ) {
    this.ways = waysOf(boxes, nets, isTied);
  }

  /** Sets the left upper corners of the boxes that are connected. */
  place(x: Float64Array, y: Float64Array): Size {
    const { layerOf, layers, trunks } = this.ways;
    const lines = this.placedLines();
    this.order(lines);
    const width = Float64Array.from(layerOf, (_, spot) => this.boxes[spot]?.width ?? 0);
    const isCorner = Uint8Array.from(layerOf, (_, spot) => (spot < this.boxes.length ? 0 : 1));
    this.x = placesOf({ layers, width, isCorner, lines, trunks });
    const [left, right] = this.extent(width);
    for (let spot = 0; spot < this.x.length; spot++) this.x[spot] = (this.x[spot] ?? 0) - left;
    const height = this.placeLayers(lines);
    for (const layer of layers) for (const spot of layer) this.putBox(spot, x, y);
    this.boxTops = y;
    return { width: Math.max(right - left, 0), height };
  }

  lines(): Line[] {
    return this.ways.pieces.map((piece) => {
      const { net, ends, goesUp, isStart, isEnd } = piece;
      // Of a way up the points begin at the target.
      const [start, end] = goesUp ? [isEnd, isStart] : [isStart, isEnd];
      return { net, ends, goesUp, isStart: start, isEnd: end, points: this.pointsOf(piece) };
    });
  }

  private placedLines(): PlacedLine[] {
    return this.ways.pieces.flatMap(({ spots, firstShift, lastShift }) =>
      spots.slice(1).map((lower, place) => ({
        upper: spots[place] ?? 0,
        lower,
        upperShift: place === 0 ? firstShift : 0,
        lowerShift: place === spots.length - 2 ? lastShift : 0,
      })),
    );
  }

  private order(lines: readonly PlacedLine[]): void {
    const { layerOf, layers } = this.ways;
    const empty = (): number[][] => Array.from(layerOf, () => []);
    const [above, below] = [empty(), empty()];
    for (const { upper, lower } of lines) {
      above[lower]?.push(upper);
      below[upper]?.push(lower);
    }
    const ordered = orderOf({ layers, above, below, spots: layerOf.length });
    for (const [index, layer] of ordered.entries()) layers[index] = layer;
  }

  private extent(width: Float64Array): [number, number] {
    let [left, right] = [Infinity, -Infinity];
    for (const spot of this.ways.layers.flat()) {
      left = Math.min(left, (this.x[spot] ?? 0) - (width[spot] ?? 0) / 2);
      right = Math.max(right, (this.x[spot] ?? 0) + (width[spot] ?? 0) / 2);
    }
    return left <= right ? [left, right] : [0, 0];
  }

  private placeLayers(lines: readonly PlacedLine[]): number {
    const { layerOf, layers } = this.ways;
    const crossing = new Float64Array(layers.length);
    for (const { upper } of lines) {
      const layer = layerOf[upper] ?? 0;
      crossing[layer] = (crossing[layer] ?? 0) + 1;
    }
    const heights = layers.map((layer) =>
      layer.reduce((most, spot) => Math.max(most, this.boxes[spot]?.height ?? 0), 0),
    );
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

  private putBox(spot: number, x: Float64Array, y: Float64Array): void {
    const box = this.boxes[spot];
    if (!box) return;
    const layer = this.ways.layerOf[spot] ?? 0;
    x[spot] = (this.x[spot] ?? 0) - box.width / 2;
    y[spot] = ((this.tops[layer] ?? 0) + (this.bottoms[layer] ?? 0) - box.height) / 2;
  }

  /** Through corners from the top of a layer to its bottom; from the lower border of a box, to the upper of another. */
  private pointsOf({ spots, firstShift, lastShift }: Piece): number[] {
    const points: number[] = [];
    for (const [place, spot] of spots.entries()) {
      const layer = this.ways.layerOf[spot] ?? 0;
      const [top, bottom] = [this.tops[layer] ?? 0, this.bottoms[layer] ?? 0];
      const [isFirst, isLast] = [place === 0, place === spots.length - 1];
      const x = (this.x[spot] ?? 0) + (isFirst ? firstShift : isLast ? lastShift : 0);
      const box = this.boxes[spot];
      const boxTop = this.boxTops[spot] ?? 0;
      if (box) points.push(x, isFirst ? boxTop + box.height : top, x, isFirst ? bottom : boxTop);
      // A piece that begins at a corner goes on below it.
      else points.push(x, isFirst ? bottom : top, x, bottom);
    }
    return points;
  }
}
