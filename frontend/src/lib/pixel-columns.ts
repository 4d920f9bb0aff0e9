/** A line with about as many points as pixels or more, as the column of pixels that it fills at each x. */

export interface PixelColumn {
  readonly left: number;
  readonly top: number;
  readonly bottom: number;
}

/**
 * Of the points from `from` to `to`, whose places are in pixels and go to the right. Neighbouring columns touch, so
 * that no line is torn where it climbs from one to the next.
 */
export function pixelColumns(
  from: number,
  to: number,
  x: (index: number) => number,
  y: (index: number) => number,
): PixelColumn[] {
  const found: PixelColumn[] = [];
  let [left, top, bottom, before] = [NaN, Infinity, -Infinity, NaN];
  for (let index = from; index < to; index++) {
    const [column, place] = [Math.floor(x(index)), y(index)];
    if (column !== left) {
      if (index > from) found.push({ left, top, bottom });
      const middle = index > from ? (before + place) / 2 : place;
      const last = found[found.length - 1];
      if (last) found[found.length - 1] = reaching(last, middle);
      [left, top, bottom] = [column, middle, middle];
    }
    [top, bottom, before] = [Math.min(top, place), Math.max(bottom, place), place];
  }
  if (to > from) found.push({ left, top, bottom });
  return found;
}

function reaching({ left, top, bottom }: PixelColumn, place: number): PixelColumn {
  return { left, top: Math.min(top, place), bottom: Math.max(bottom, place) };
}
