/** Puts boxes into layers such that data flows down, and says which connections have to go up. */

export interface Pair {
  readonly source: number;
  readonly target: number;
}

export interface Layers {
  /** By box, from 0. */
  readonly layerOf: Int32Array;
  readonly count: number;
  /** By pair: it closes a cycle, so it goes up. */
  readonly goesUp: readonly boolean[];
}

/** Boxes are numbered as they were executed: a cycle is cut where it comes back to the earliest of its boxes. */
export function layersOf(boxes: number, pairs: readonly Pair[]): Layers {
  const order = flowOrder(boxes, pairs);
  const goesUp = pairs.map(({ source, target }) => (order.place[source] ?? 0) >= (order.place[target] ?? 0));
  // A line that goes up needs layers between its ends like any other.
  const down = pairs.map((pair, index) => (goesUp[index] ? { source: pair.target, target: pair.source } : pair));
  const layerOf = longestWays(boxes, neighbours(boxes, down, "target"), order.boxes);
  settle(layerOf, neighbours(boxes, down, "source"), neighbours(boxes, down, "target"), order.boxes);
  return { layerOf, count: layerOf.reduce((most, layer) => Math.max(most, layer + 1), 0), goesUp };
}

/** For each box the other ends of its pairs: for "target" those before it, for "source" those after it. */
function neighbours(boxes: number, pairs: readonly Pair[], end: "source" | "target"): number[][] {
  const found: number[][] = Array.from({ length: boxes }, () => []);
  const other = end === "source" ? "target" : "source";
  for (const pair of pairs) found[pair[end]]?.push(pair[other]);
  return found;
}

interface FlowOrder {
  readonly boxes: readonly number[];
  readonly place: Int32Array;
}

/** Each box after those before it; where a cycle leaves none, the earliest of what is left. */
function flowOrder(boxes: number, pairs: readonly Pair[]): FlowOrder {
  const following = neighbours(boxes, pairs, "source");
  const waitsFor = new Int32Array(boxes);
  for (const { target } of pairs) waitsFor[target] = (waitsFor[target] ?? 0) + 1;
  const ready = new Earliest();
  for (let box = 0; box < boxes; box++) if (waitsFor[box] === 0) ready.push(box);
  const place = new Int32Array(boxes).fill(-1);
  const order: number[] = [];
  for (let earliest = 0; order.length < boxes; ) {
    let box = ready.pop();
    if (box === undefined) {
      while (place[earliest] !== -1) earliest++;
      box = earliest;
    }
    if (place[box] !== -1) continue;
    place[box] = order.length;
    order.push(box);
    for (const next of following[box] ?? []) {
      const left = (waitsFor[next] ?? 0) - 1;
      waitsFor[next] = left;
      if (left === 0 && place[next] === -1) ready.push(next);
    }
  }
  return { boxes: order, place };
}

function longestWays(boxes: number, before: readonly number[][], order: readonly number[]): Int32Array {
  const layerOf = new Int32Array(boxes);
  for (const box of order) {
    layerOf[box] = (before[box] ?? []).reduce((most, other) => Math.max(most, (layerOf[other] ?? 0) + 1), 0);
  }
  return layerOf;
}

/** Moves boxes with more ways out than in down to where their data is used, which shortens the lines. */
function settle(
  layerOf: Int32Array,
  after: readonly number[][],
  before: readonly number[][],
  order: readonly number[],
): void {
  for (const box of [...order].reverse()) {
    const [out, into] = [after[box] ?? [], before[box] ?? []];
    if (out.length <= into.length) continue;
    layerOf[box] = out.reduce((least, other) => Math.min(least, (layerOf[other] ?? 0) - 1), Infinity);
  }
}

/** A binary heap of numbers, the smallest first. */
class Earliest {
  private readonly heap: number[] = [];

  push(value: number): void {
    const heap = this.heap;
    let at = heap.length;
    heap.push(value);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = heap[above] ?? 0;
      if (other <= value) break;
      heap[at] = other;
      at = above;
    }
    heap[at] = value;
  }

  pop(): number | undefined {
    const heap = this.heap;
    const first = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && (heap[below + 1] ?? 0) < (heap[below] ?? 0)) below++;
      if ((heap[below] ?? 0) >= last) break;
      heap[at] = heap[below] ?? 0;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}
