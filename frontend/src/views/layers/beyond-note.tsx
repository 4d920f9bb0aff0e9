import type { JSX } from "preact";
import type { AxisEnds } from "../../lib/axis-ends";
import { formatNumber } from "../../lib/format";
import { setShowsEverything, showsEverything } from "./choices";

/** Says that an axis leaves wild steps out, and offers to show them. */
export function BeyondNote({ beyond }: { readonly beyond: AxisEnds["beyond"] }): JSX.Element | null {
  if (beyond) {
    return (
      <p class="beyond-note">
        A few steps reach {formatNumber(beyond.low, 2)} … {formatNumber(beyond.high, 2)}.
        <button type="button" class="link" onClick={() => setShowsEverything(true)}>
          Show all
        </button>
      </p>
    );
  }
  if (!showsEverything()) return null;
  return (
    <p class="beyond-note">
      The axis shows every step.
      <button type="button" class="link" onClick={() => setShowsEverything(false)}>
        Leave outliers out
      </button>
    </p>
  );
}
