/** The ways of data through the layers: what lies in which layer, and where lines pass without stopping. */

import { layersOf, type Pair } from "./graph-layers";
import type { Box, Net, Touch } from "./graph-level";

/** More corners than this would take seconds; the longest lines are left out then. */
const MOST_CORNERS = 20_000;

/** A piece of a net: it begins at the source or where another piece ends, and goes down from layer to layer. */
export interface Piece {
  readonly net: number;
  /** Places in the net's targets that are reached by it. */
  readonly ends: readonly number[];
  /** Boxes and corners; empty where there was no room. */
  readonly spots: readonly number[];
  /** How far right of the middle it leaves its first and reaches its last spot. */
  readonly firstShift: number;
  readonly lastShift: number;
  readonly goesUp: boolean;
  /** Whether it touches the net's source, and one of its targets. */
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

export interface Ways {
  /** Boxes and corners of each layer; corners are numbered on from the boxes. */
  readonly layers: number[][];
  readonly layerOf: readonly number[];
  readonly pieces: readonly Piece[];
  /** Corners of one net, from layer to layer. */
  readonly trunks: readonly (readonly number[])[];
}

export function waysOf(boxes: readonly Box[], nets: readonly Net[], isTied: Uint8Array): Ways {
  return new WayFinder(boxes, nets, isTied).ways();
}

export function pairsOf(nets: readonly Net[]): Pair[] {
  return nets.flatMap(({ source, targets }) => targets.map((target) => ({ source: source.box, target: target.box })));
}

/** Targets of a net that are reached together: all those below, or a single one above. */
interface Group {
  readonly net: number;
  readonly from: Touch;
  readonly to: readonly { readonly place: number; readonly touch: Touch }[];
  readonly goesUp: boolean;
  readonly span: number;
}

class WayFinder {
  private readonly layerOf: number[];
  private readonly layers: number[][];
  private readonly pieces: Piece[] = [];
  private readonly trunks: number[][] = [];
  private corners = 0;

  constructor(
    private readonly boxes: readonly Box[],
    private readonly nets: readonly Net[],
    isTied: Uint8Array,
  ) {
    const { layerOf, goesUp } = layersOf(boxes.length, pairsOf(nets));
    this.layerOf = [...layerOf];
    const count = this.movePins(isTied);
    this.layers = Array.from({ length: count }, () => []);
    for (const box of boxes.keys()) if (isTied[box]) this.layers[this.layerOf[box] ?? 0]?.push(box);
    // The shortest first: where there is no room for all, the longest are left out.
    for (const group of this.groups(goesUp).sort((a, b) => a.span - b.span)) this.lay(group);
  }

  ways(): Ways {
    return { layers: this.layers, layerOf: this.layerOf, pieces: this.pieces, trunks: this.trunks };
  }

  /** Pins to the very top and bottom; the number of layers. */
  private movePins(isTied: Uint8Array): number {
    const { boxes, layerOf } = this;
    const inner = boxes.flatMap(({ pin }, box) => (isTied[box] && pin === undefined ? [box] : []));
    const hasPin = (side: "top" | "bottom"): boolean => boxes.some(({ pin }, box) => pin === side && isTied[box]);
    const least = inner.reduce((low, box) => Math.min(low, layerOf[box] ?? 0), Infinity);
    const lift = inner.length > 0 ? (hasPin("top") ? 1 : 0) - least : 0;
    let last = hasPin("top") ? 0 : -1;
    for (const box of inner) {
      const layer = (layerOf[box] ?? 0) + lift;
      layerOf[box] = layer;
      last = Math.max(last, layer);
    }
    for (const [box, { pin }] of boxes.entries()) if (pin) layerOf[box] = pin === "top" ? 0 : last + 1;
    return hasPin("bottom") ? last + 2 : last + 1;
  }

  private groups(goesUp: readonly boolean[]): Group[] {
    const groups: Group[] = [];
    let pair = 0;
    for (const [net, { source, targets }] of this.nets.entries()) {
      const down: { place: number; touch: Touch }[] = [];
      for (const [place, touch] of targets.entries()) {
        if (goesUp[pair++]) groups.push(this.group(net, touch, [{ place, touch: source }], true));
        else down.push({ place, touch });
      }
      if (down.length > 0) groups.push(this.group(net, source, down, false));
    }
    return groups;
  }

  private group(net: number, from: Touch, to: Group["to"], goesUp: boolean): Group {
    const span = to.reduce((most, { touch }) => Math.max(most, this.span(from, touch)), 0);
    return { net, from, to, goesUp, span };
  }

  private span(from: Touch, to: Touch): number {
    return (this.layerOf[to.box] ?? 0) - (this.layerOf[from.box] ?? 0);
  }

  /** A trunk of corners down to the last target, in pieces from branch to branch, and the branches. */
  private lay(group: Group): void {
    const { net, from, to, goesUp, span } = group;
    const isAlone = to.length === 1;
    if (span < 1 || this.corners + span - 1 > MOST_CORNERS) {
      for (const { place } of to) this.add(group, { ends: [place], spots: [], isStart: true, isEnd: true });
      return;
    }
    const trunk = this.trunk((this.layerOf[from.box] ?? 0) + 1, span - 1);
    if (isAlone) {
      const [end] = to;
      this.add(group, {
        ends: [end?.place ?? 0],
        spots: [from.box, ...trunk, end?.touch.box ?? 0],
        isStart: true,
        isEnd: true,
        lastShift: end?.touch.shift ?? 0,
      });
      return;
    }
    const corner = (touch: Touch): number => this.span(from, touch) - 2;
    const branches = [...new Set(to.map(({ touch }) => corner(touch)))].filter((at) => at >= 0).sort((a, b) => a - b);
    for (const [index, at] of branches.entries()) {
      const before = branches[index - 1];
      const ends = to.filter(({ touch }) => corner(touch) >= at).map(({ place }) => place);
      const spots = before === undefined ? [from.box, ...trunk.slice(0, at + 1)] : trunk.slice(before, at + 1);
      this.add({ net, from, goesUp }, { ends, spots, isStart: before === undefined, isEnd: false });
    }
    for (const { place, touch } of to) {
      const at = corner(touch);
      const start = at < 0 ? from.box : (trunk[at] ?? 0);
      this.add(group, {
        ends: [place],
        spots: [start, touch.box],
        isStart: at < 0,
        isEnd: true,
        lastShift: touch.shift,
      });
    }
  }

  private add(
    { net, from, goesUp }: Pick<Group, "net" | "from" | "goesUp">,
    piece: Pick<Piece, "ends" | "spots" | "isStart" | "isEnd"> & { readonly lastShift?: number },
  ): void {
    this.pieces.push({ net, goesUp, firstShift: piece.isStart ? from.shift : 0, lastShift: 0, ...piece });
  }

  private trunk(layer: number, length: number): number[] {
    const corners = Array.from({ length }, (_, index) => this.boxes.length + this.corners + index);
    for (const [index, corner] of corners.entries()) {
      this.layerOf[corner] = layer + index;
      this.layers[layer + index]?.push(corner);
    }
    this.corners += length;
    if (length > 1) this.trunks.push(corners);
    return corners;
  }
}
