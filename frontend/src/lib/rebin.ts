/**
 * Bins of a sketch on a screen. Bins are joined where they are narrower than a pixel, and never cut or smoothed:
 * what a cell shows is the exact number of values in the bins it stands for.
 */

/** Rising, not overlapping; `lower` equals `upper` for a bin that holds one single value. */
export interface Bins {
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly counts: Float64Array;
}

/** Columns of one length; a row is a cell of one or more neighbouring bins. */
export interface Cells {
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  /** Where the cell begins and ends as `place` says. */
  readonly left: Float64Array;
  readonly right: Float64Array;
  /** One column of exact counts for each of the histograms. */
  readonly counts: readonly Float64Array[];
  /** How many bins each cell stands for, over all histograms. */
  readonly bins: Int32Array;
}

export function totalOf(counts: Float64Array): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The bins without the one (or the two, for +0 and −0) that holds exact zeros, and the number of zeros. */
export function splitZeros(bins: Bins): { bins: Bins; zeros: number } {
  const isZero = (i: number): boolean => bins.lower[i] === 0 && bins.upper[i] === 0;
  const zeros = bins.counts.reduce((sum, count, i) => sum + (isZero(i) ? count : 0), 0);
  const keep = (column: Float64Array): Float64Array => column.filter((_, i) => !isZero(i));
  return { bins: { lower: keep(bins.lower), upper: keep(bins.upper), counts: keep(bins.counts) }, zeros };
}

interface Interval {
  lower: number;
  upper: number;
  left: number;
  right: number;
  counts: number[];
  bins: number;
}

/**
 * Common cells for one or more histograms. Bins that overlap (the same bin of two sketches, whose outermost edges
 * are their exact extremes) share a cell; neighbours join until a cell is `least` wide as `place` measures it.
 */
export function commonCells(histograms: readonly Bins[], place: (value: number) => number, least: number): Cells {
  const cells: Interval[] = [];
  for (const interval of sortedIntervals(histograms, place)) {
    const current = cells.at(-1);
    if (current !== undefined && joins(current, interval, least)) absorb(current, interval);
    else cells.push(interval);
  }
  return columnsOf(withoutScraps(cells, least), histograms.length);
}

/** A scrap narrower than `least` that was left over at the end of joined bins goes to the cell before. */
function withoutScraps(cells: Interval[], least: number): Interval[] {
  const kept: Interval[] = [];
  for (const cell of cells) {
    const before = kept.at(-1);
    const touches = before !== undefined && before.bins > 1 && cell.lower === before.upper;
    if (touches && width(cell) < least && width(before) < 2 * least) absorb(before, cell);
    else kept.push(cell);
  }
  return kept;
}

function sortedIntervals(histograms: readonly Bins[], place: (value: number) => number): Interval[] {
  const intervals: Interval[] = [];
  histograms.forEach((bins, which) => {
    for (let i = 0; i < bins.counts.length; i++) {
      const [lower, upper] = [bins.lower[i] ?? 0, bins.upper[i] ?? 0];
      const counts = histograms.map((_, other) => (other === which ? (bins.counts[i] ?? 0) : 0));
      intervals.push({ lower, upper, left: place(lower), right: place(upper), counts, bins: 1 });
    }
  });
  return intervals.sort((a, b) => a.lower - b.lower || a.upper - b.upper);
}

function joins(cell: Interval, next: Interval, least: number): boolean {
  const sameBin = next.lower < cell.upper || (next.lower === cell.lower && next.upper === cell.upper);
  // A wide bin stays as it is: joined with its narrow neighbours, its height would no longer be its own.
  return sameBin || (width(cell) < least && width(next) < least && next.left - cell.left < least);
}

function width(cell: Interval): number {
  return cell.right - cell.left;
}

function absorb(cell: Interval, next: Interval): void {
  cell.upper = Math.max(cell.upper, next.upper);
  cell.right = Math.max(cell.right, next.right);
  cell.counts = cell.counts.map((count, which) => count + (next.counts[which] ?? 0));
  cell.bins += next.bins;
}

function columnsOf(cells: Interval[], histograms: number): Cells {
  const column = (pick: (cell: Interval) => number): Float64Array => Float64Array.from(cells, pick);
  return {
    lower: column((cell) => cell.lower),
    upper: column((cell) => cell.upper),
    left: column((cell) => cell.left),
    right: column((cell) => cell.right),
    counts: Array.from({ length: histograms }, (_, which) => column((cell) => cell.counts[which] ?? 0)),
    bins: Int32Array.from(cells, (cell) => cell.bins),
  };
}

/**
 * The width in pixels on which a cell's values are drawn: its own, but for a thin cell that stands alone a whole pixel,
 * as nothing thinner can be seen.
 */
export function drawnWidth({ left, right }: Cells, cell: number): number {
  const [from, to] = [left[cell] ?? 0, right[cell] ?? 0];
  const touches = (right[cell - 1] ?? -Infinity) >= from - 1e-6 || (left[cell + 1] ?? Infinity) <= to + 1e-6;
  return Math.max(to - from, touches ? 0.1 : 1);
}

/** Whether all bins of both lie on one grid, so that cells common to them are no coarser than the bins. */
export function sameGrid(a: Bins, b: Bins): boolean {
  const cells = commonCells([a, b], (value) => value, 0);
  return cells.bins.every((bins) => bins <= 2);
}

/**
 * Counts cut at `edges`, values taken as spread evenly over their bin. Only for histograms whose bins do not match
 * (another writer's buckets): counts become fractions, the total stays.
 */
export function cutAt(bins: Bins, edges: readonly number[]): Bins {
  const pieces: { lower: number; upper: number; count: number }[] = [];
  for (let i = 0; i < bins.counts.length; i++) {
    const [lower, upper, count] = [bins.lower[i] ?? 0, bins.upper[i] ?? 0, bins.counts[i] ?? 0];
    const inner = edges.filter((edge) => edge > lower && edge < upper);
    const ends = [lower, ...inner, upper];
    for (let k = 1; k < ends.length; k++) {
      const [from, to] = [ends[k - 1] ?? 0, ends[k] ?? 0];
      pieces.push({ lower: from, upper: to, count: upper > lower ? (count * (to - from)) / (upper - lower) : count });
    }
  }
  return {
    lower: Float64Array.from(pieces, (piece) => piece.lower),
    upper: Float64Array.from(pieces, (piece) => piece.upper),
    counts: Float64Array.from(pieces, (piece) => piece.count),
  };
}

/** All edges of the bins, rising, each once. */
export function edgesOf(bins: Bins): number[] {
  return [...new Set([...bins.lower, ...bins.upper])].sort((a, b) => a - b);
}

/** Counts shared out over `rows` equal stretches of the axis (0 … 1 as `place` says), by what a bin covers of each. */
export function spread(bins: Bins, place: (value: number) => number, rows: number): Float64Array {
  const shares = new Float64Array(rows);
  for (let i = 0; i < bins.counts.length; i++) {
    const from = place(bins.lower[i] ?? 0) * rows;
    const to = place(bins.upper[i] ?? 0) * rows;
    shareOut(shares, from, to, bins.counts[i] ?? 0);
  }
  return shares;
}

function shareOut(shares: Float64Array, from: number, to: number, count: number): void {
  const rows = shares.length;
  const [first, last] = [Math.floor(from), Math.min(Math.ceil(to) - 1, rows - 1)];
  if (to - from < 1e-9 || first >= last) {
    const row = Math.min(Math.max(first, 0), rows - 1);
    if (to >= 0 && from <= rows) shares[row] = (shares[row] ?? 0) + count;
    return;
  }
  for (let row = Math.max(0, first); row <= last; row++) {
    const covered = Math.min(row + 1, to) - Math.max(row, from);
    shares[row] = (shares[row] ?? 0) + (count * covered) / (to - from);
  }
}
