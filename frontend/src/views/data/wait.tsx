import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { formatSeconds } from "../../lib/format";
import { phaseShares, phaseSplit, recentFrom, waitReading } from "../../lib/phases";
import type { Scalars } from "../resources/run-scalars";

/** In words how long the model is kept waiting for its data; nothing where that was not recorded. */
export function WaitText({ scalars }: { readonly scalars: Scalars }): JSX.Element | null {
  const found = useMemo(() => readingOf(scalars), [scalars]);
  if (!found) return null;
  const { reading, seconds } = found;
  return (
    <p class={`page-reading ${reading.tone}`}>
      <strong>{reading.text}</strong> {reading.advice}
      <span class="data-fine">
        {formatSeconds(seconds)} from the end of a step to the next forward pass: the loader, moving the batch to the
        device, and whatever else the loop does there.
      </span>
    </p>
  );
}

function readingOf(
  scalars: Scalars,
): { readonly reading: ReturnType<typeof waitReading>; readonly seconds: number } | null {
  const split = phaseSplit(scalars);
  if (!split || !scalars.has("time/data")) return null;
  const from = recentFrom(split.whole);
  const share = phaseShares(split, from).data;
  const recent = split.whole.mean.subarray(from).filter(Number.isFinite);
  const step = recent.reduce((sum, seconds) => sum + seconds, 0) / recent.length;
  return { reading: waitReading(share), seconds: share * step };
}
