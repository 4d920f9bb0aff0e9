/** The order of what lies in one layer, such that few lines cross. */

/** Sweeps without progress until we stop, and sweeps at most. */
const PATIENCE = 4;
const MOST_SWEEPS = 16;
/** Units of work for one picture; beyond it the best order so far is taken. */
const MOST_WORK = 4_000_000;

export interface LayeredGraph {
  /** Spots (boxes and corners of lines) of each layer, in a first order. */
  readonly layers: readonly (readonly number[])[];
  /** For each spot its neighbours in the layer above and below. */
  readonly above: readonly (readonly number[])[];
  readonly below: readonly (readonly number[])[];
  readonly spots: number;
}

/** Barycentre sweeps up and down; the best order found. */
export function orderOf(graph: LayeredGraph): number[][] {
  const place = new Float64Array(graph.spots);
  let layers = graph.layers.map((layer) => [...layer]);
  number(layers, place);
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers, graph.below, place);
  const cost =
    graph.layers.reduce((sum, layer) => sum + layer.length, 0) +
    graph.below.reduce((sum, ends) => sum + ends.length, 0);
  const most = Math.min(MOST_SWEEPS, Math.max(2, Math.floor(MOST_WORK / Math.max(cost, 1))));
  for (let sweep = 0, futile = 0; sweep < most && futile < PATIENCE && fewest > 0; sweep++) {
    const goesDown = sweep % 2 === 0;
    layers = swept(layers, goesDown ? graph.above : graph.below, place, goesDown, sweep % 4 >= 2);
    const found = crossings(layers, graph.below, place);
    futile = found < fewest ? 0 : futile + 1;
    if (found < fewest) [fewest, best] = [found, layers.map((layer) => [...layer])];
  }
  return best;
}

function number(layers: readonly (readonly number[])[], place: Float64Array): void {
  for (const layer of layers) for (const [index, spot] of layer.entries()) place[spot] = index;
}

/** Each layer sorted by the mean place of its neighbours; `flips` lets equals change sides, to get unstuck. */
function swept(
  layers: readonly number[][],
  neighbours: readonly (readonly number[])[],
  place: Float64Array,
  goesDown: boolean,
  flips: boolean,
): number[][] {
  const next = [...layers];
  for (let step = 1; step < layers.length; step++) {
    const index = goesDown ? step : layers.length - 1 - step;
    const layer = layers[index] ?? [];
    const wish = new Map(layer.map((spot) => [spot, meanPlace(neighbours[spot] ?? [], place)]));
    const sorted = sortedByWish(layer, wish, flips);
    for (const [at, spot] of sorted.entries()) place[spot] = at;
    next[index] = sorted;
  }
  return next;
}

/** Spots without a wish keep their places, the others share the rest. */
function sortedByWish(layer: readonly number[], wish: ReadonlyMap<number, number>, flips: boolean): number[] {
  const moving = layer.filter((spot) => !Number.isNaN(wish.get(spot) ?? NaN));
  const ordered = flips ? [...moving].reverse() : [...moving];
  ordered.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0));
  let taken = 0;
  return layer.map((spot) => (Number.isNaN(wish.get(spot) ?? NaN) ? spot : (ordered[taken++] ?? spot)));
}

function meanPlace(neighbours: readonly number[], place: Float64Array): number {
  let sum = 0;
  for (const spot of neighbours) sum += place[spot] ?? 0;
  return neighbours.length > 0 ? sum / neighbours.length : NaN;
}

/** How many pairs of lines cross, in all layers. */
export function crossings(
  layers: readonly (readonly number[])[],
  below: readonly (readonly number[])[],
  place: Float64Array,
): number {
  let sum = 0;
  for (const [index, layer] of layers.entries()) {
    const width = layers[index + 1]?.length ?? 0;
    if (width > 0) sum += crossingsOfLayer(layer, below, place, width);
  }
  return sum;
}

/** Inversions, counted with a Fenwick tree in n log n. */
function crossingsOfLayer(
  layer: readonly number[],
  below: readonly (readonly number[])[],
  place: Float64Array,
  width: number,
): number {
  const tree = new Int32Array(width + 1);
  let [sum, seen] = [0, 0];
  for (const spot of layer) {
    const ends = (below[spot] ?? []).map((other) => place[other] ?? 0);
    for (const end of ends) sum += seen - countUpTo(tree, end + 1);
    for (const end of ends) addAt(tree, end + 1);
    seen += ends.length;
  }
  return sum;
}

function countUpTo(tree: Int32Array, end: number): number {
  let sum = 0;
  for (let at = end; at > 0; at -= at & -at) sum += tree[at] ?? 0;
  return sum;
}

function addAt(tree: Int32Array, end: number): void {
  for (let at = end; at < tree.length; at += at & -at) tree[at] = (tree[at] ?? 0) + 1;
}
