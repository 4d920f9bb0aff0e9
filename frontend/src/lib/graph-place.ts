/** Where things are across the layers: close to what they are connected with, and never over one another. */

export interface Placing {
  /** Spots of each layer, in their order. */
  readonly layers: readonly (readonly number[])[];
  readonly width: Float64Array;
  /** 1: a corner of a line that passes through the layer, not a box. */
  readonly isCorner: Uint8Array;
  readonly lines: readonly PlacedLine[];
  /** Corners of one line in a row, from layer to layer. */
  readonly trunks: readonly (readonly number[])[];
}

/** A line between neighbouring layers; it ends so far right of the middles of its spots. */
export interface PlacedLine {
  readonly upper: number;
  readonly lower: number;
  readonly upperShift: number;
  readonly lowerShift: number;
}

const SPACE_BETWEEN_BOXES = 28;
const SPACE_BESIDE_CORNERS = 18;
const SPACE_BETWEEN_CORNERS = 12;
const SWEEPS = 6;

/** How much a line wants to be straight: a long line most, and a box follows boxes rather than passing lines. */
const WEIGHT = { corners: 8, mixed: 0.5, boxes: 2 } as const;
/** Where they collide, lines make room for boxes. */
const FORCE_OF_CORNER = 1e-6;
const FORCE_OF_FREE_BOX = 0.05;

interface Pull {
  readonly spot: number;
  readonly shift: number;
  readonly weight: number;
}

/** The middle of each spot. */
export function placesOf(placing: Placing): Float64Array {
  const x = firstPlaces(placing);
  const [above, below] = pulls(placing);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of [...placing.layers].reverse()) settle(layer, placing, x, (spot) => below[spot] ?? []);
    // Downwards last: a box stands below what it reads, and a chain is straight.
    for (const layer of placing.layers) settle(layer, placing, x, (spot) => above[spot] ?? []);
  }
  straighten(placing, x);
  return x;
}

/** The least distance between the middles of two neighbours. */
export function distance(placing: Pick<Placing, "width" | "isCorner">, left: number, right: number): number {
  const corners = (placing.isCorner[left] ?? 0) + (placing.isCorner[right] ?? 0);
  const space = [SPACE_BETWEEN_BOXES, SPACE_BESIDE_CORNERS, SPACE_BETWEEN_CORNERS][corners] ?? 0;
  return ((placing.width[left] ?? 0) + (placing.width[right] ?? 0)) / 2 + space;
}

function firstPlaces(placing: Placing): Float64Array {
  const x = new Float64Array(placing.width.length);
  for (const layer of placing.layers) {
    let [at, before] = [0, -1];
    for (const spot of layer) {
      at += before < 0 ? 0 : distance(placing, before, spot);
      x[spot] = at;
      before = spot;
    }
    for (const spot of layer) x[spot] = (x[spot] ?? 0) - at / 2;
  }
  return x;
}

function pulls(placing: Placing): [Pull[][], Pull[][]] {
  const empty = (): Pull[][] => Array.from(placing.width, () => []);
  const [above, below] = [empty(), empty()];
  for (const { upper, lower, upperShift, lowerShift } of placing.lines) {
    const corners = (placing.isCorner[upper] ?? 0) + (placing.isCorner[lower] ?? 0);
    const weight = corners === 2 ? WEIGHT.corners : corners === 1 ? WEIGHT.mixed : WEIGHT.boxes;
    above[lower]?.push({ spot: upper, shift: upperShift - lowerShift, weight });
    below[upper]?.push({ spot: lower, shift: lowerShift - upperShift, weight });
  }
  return [above, below];
}

/** Moves the spots of one layer to where their neighbours pull them, as near as their distances allow. */
function settle(
  layer: readonly number[],
  placing: Placing,
  x: Float64Array,
  pullsOf: (spot: number) => readonly Pull[],
): void {
  const offsets = new Float64Array(layer.length);
  for (let place = 1; place < layer.length; place++) {
    offsets[place] = (offsets[place - 1] ?? 0) + distance(placing, layer[place - 1] ?? 0, layer[place] ?? 0);
  }
  const wishes = layer.map((spot, place) => {
    const found = pullsOf(spot);
    const wish = found.length > 0 ? weightedMedian(found, x) : (x[spot] ?? 0);
    const force = found.reduce((sum, pull) => sum + pull.weight, 0) || FORCE_OF_FREE_BOX;
    return { wish: wish - (offsets[place] ?? 0), weight: placing.isCorner[spot] ? FORCE_OF_CORNER : force };
  });
  for (const [place, value] of nearestRising(wishes).entries()) x[layer[place] ?? 0] = value + (offsets[place] ?? 0);
}

/** The mean of the lower and the upper weighted median: one strong line is followed exactly. */
function weightedMedian(found: readonly Pull[], x: Float64Array): number {
  const sorted = found.map((pull) => ({ at: (x[pull.spot] ?? 0) + pull.shift, weight: pull.weight }));
  sorted.sort((a, b) => a.at - b.at);
  const half = sorted.reduce((sum, { weight }) => sum + weight, 0) / 2;
  let sum = 0;
  for (const [place, { at, weight }] of sorted.entries()) {
    sum += weight;
    if (sum > half) return at;
    if (sum === half) return (at + (sorted[place + 1]?.at ?? at)) / 2;
  }
  return sorted.at(-1)?.at ?? 0;
}

interface Wish {
  readonly wish: number;
  readonly weight: number;
}

/** The rising numbers nearest to what is wished, in weighted squares: neighbours that collide are pooled. */
export function nearestRising(wishes: readonly Wish[]): number[] {
  const pools: { mean: number; weight: number; size: number }[] = [];
  for (const { wish, weight } of wishes) {
    let pool = { mean: wish, weight, size: 1 };
    for (let last = pools.at(-1); last && last.mean > pool.mean; last = pools.at(-1)) {
      pools.pop();
      const together = last.weight + pool.weight;
      pool = {
        mean: (last.mean * last.weight + pool.mean * pool.weight) / together,
        weight: together,
        size: last.size + pool.size,
      };
    }
    pools.push(pool);
  }
  return pools.flatMap(({ mean, size }) => new Array<number>(size).fill(mean));
}

/** A line that passes many layers becomes one vertical, or few, where its neighbours leave room for that. */
function straighten(placing: Placing, x: Float64Array): void {
  const beside = neighboursInLayers(placing);
  for (const trunk of placing.trunks) {
    let run: number[] = [];
    let [low, high] = [-Infinity, Infinity];
    for (const spot of trunk) {
      const [left, right] = beside[spot] ?? [-1, -1];
      const least = left < 0 ? -Infinity : (x[left] ?? 0) + distance(placing, left, spot);
      const most = right < 0 ? Infinity : (x[right] ?? 0) - distance(placing, spot, right);
      if (Math.max(low, least) > Math.min(high, most)) {
        align(run, low, high, x);
        [run, low, high] = [[], -Infinity, Infinity];
      }
      run.push(spot);
      [low, high] = [Math.max(low, least), Math.min(high, most)];
    }
    align(run, low, high, x);
  }
}

function align(run: readonly number[], low: number, high: number, x: Float64Array): void {
  const mean = run.reduce((sum, spot) => sum + (x[spot] ?? 0), 0) / run.length;
  const straight = Math.min(Math.max(mean, low), high);
  for (const spot of run) x[spot] = straight;
}

function neighboursInLayers(placing: Placing): (readonly [number, number])[] {
  const beside: (readonly [number, number])[] = [];
  for (const layer of placing.layers) {
    for (const [place, spot] of layer.entries()) beside[spot] = [layer[place - 1] ?? -1, layer[place + 1] ?? -1];
  }
  return beside;
}
