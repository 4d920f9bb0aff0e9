/** A chart in words, for those who do not see it. */

import type { LineSeries, Marker } from "./line-series";

const MOST_NAMED = 5;

export function describe(
  title: string,
  series: readonly LineSeries[],
  format: (value: number) => string,
  markers: readonly Marker[] = [],
): string {
  const drawn = series.filter((each) => each.x.length > 0);
  const parts = drawn.slice(0, MOST_NAMED).map((each) => describeOne(each, format));
  const rest = drawn.length > MOST_NAMED ? [`and ${drawn.length - MOST_NAMED} more`] : [];
  const marked = markers.slice(0, MOST_NAMED).map((each) => `${each.label} at ${each.x}`);
  const marks = marked.length > 0 ? [`marked: ${marked.join(", ")}`] : [];
  return [`Line chart of ${title}`, ...parts, ...rest, ...marks].join("; ");
}

function describeOne({ label, y, bad }: LineSeries, format: (value: number) => string): string {
  let [low, high, last] = [Infinity, -Infinity, NaN];
  for (const value of y) {
    if (!Number.isFinite(value)) continue;
    [low, high, last] = [Math.min(low, value), Math.max(high, value), value];
  }
  const broken = bad?.some((count) => count > 0) ? ", with non-finite values" : "";
  const name = label.slice(0, 100);
  if (low > high) return `${name} has no finite value`;
  return `${name} from ${format(low)} to ${format(high)}, last ${format(last)}${broken}`;
}
