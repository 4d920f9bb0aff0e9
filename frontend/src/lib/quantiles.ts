/** What bins say about the distribution of the values in them. Inside a bin values are taken as evenly spread. */

import { totalOf, type Bins } from "./rebin";

/** The value below which each share (0 … 1) of the values lies; NaN when there are none. */
export function quantilesOf(bins: Bins, shares: readonly number[]): number[] {
  const total = totalOf(bins.counts);
  if (!(total > 0)) return shares.map(() => NaN);
  return shares.map((share) => quantile(bins, Math.min(1, Math.max(0, share)) * total));
}

function quantile(bins: Bins, rank: number): number {
  let below = 0;
  const last = bins.counts.length - 1;
  for (let i = 0; i <= last; i++) {
    const count = bins.counts[i] ?? 0;
    if (below + count >= rank || i === last) {
      const inside = count > 0 ? Math.min(1, Math.max(0, (rank - below) / count)) : 0;
      // Not lower + inside * width: the widest bins have no finite width.
      return (bins.lower[i] ?? 0) * (1 - inside) + (bins.upper[i] ?? 0) * inside;
    }
    below += count;
  }
  return NaN;
}

/** The share of the values that lies below or at `value`. */
export function shareUpTo(bins: Bins, value: number): number {
  const total = totalOf(bins.counts);
  let below = 0;
  for (let i = 0; i < bins.counts.length; i++) {
    const [lower, upper, count] = [bins.lower[i] ?? 0, bins.upper[i] ?? 0, bins.counts[i] ?? 0];
    if (upper <= value) below += count;
    else if (lower < value) below += count * ((value / 2 - lower / 2) / (upper / 2 - lower / 2));
  }
  return total > 0 ? below / total : NaN;
}

/**
 * The greatest difference between the two cumulated shares (Kolmogorov and Smirnov's distance): 0 for the same
 * distribution, 1 for two that do not meet.
 */
export function largestGap(a: Bins, b: Bins): number {
  const edges = [...a.lower, ...a.upper, ...b.lower, ...b.upper];
  return edges.reduce((most, edge) => Math.max(most, Math.abs(shareUpTo(a, edge) - shareUpTo(b, edge))), 0);
}

/** The magnitude below which a share of the values other than zero lies; NaN when all are zero. */
export function magnitudeQuantile(bins: Bins, share: number): number {
  const sizes: { size: number; count: number }[] = [];
  for (let i = 0; i < bins.counts.length; i++) {
    const [lower, upper] = [Math.abs(bins.lower[i] ?? 0), Math.abs(bins.upper[i] ?? 0)];
    // A bin that begins at zero reaches down without end; its far edge is what is known of it.
    const size = Math.min(lower, upper) || Math.max(lower, upper);
    if (size > 0) sizes.push({ size, count: bins.counts[i] ?? 0 });
  }
  sizes.sort((a, b) => a.size - b.size);
  const rank = share * sizes.reduce((sum, { count }) => sum + count, 0);
  let below = 0;
  for (const { size, count } of sizes) {
    below += count;
    if (below >= rank) return size;
  }
  return NaN;
}
