/** Searching in ascending columns. */

/** How many values are below `x`. */
export function lowerBound(values: Float64Array, x: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? Infinity) < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the value nearest to `x`; -1 when there is none. */
export function nearestIndex(values: Float64Array, x: number): number {
  const above = lowerBound(values, x);
  if (above === 0) return values.length === 0 ? -1 : 0;
  const [before, after] = [values[above - 1] ?? -Infinity, values[above] ?? Infinity];
  return x - before <= after - x ? above - 1 : above;
}

/** The value at `x` on the line through (xs, ys); beyond its ends the end. NaN without points. */
export function interpolate(xs: Float64Array, ys: Float64Array, x: number): number {
  const above = lowerBound(xs, x);
  const [last, at] = [xs.length - 1, Math.min(above, xs.length - 1)];
  if (above === 0 || last < 0) return ys[0] ?? NaN;
  if (above > last) return ys[last] ?? NaN;
  const [x0, x1] = [xs[at - 1] ?? NaN, xs[at] ?? NaN];
  const [y0, y1] = [ys[at - 1] ?? NaN, ys[at] ?? NaN];
  return x1 === x0 ? y1 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}
