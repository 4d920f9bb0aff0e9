import type { RunRow } from "../wire/types";

/** What every page gets. Colours come from `colourOf(name)` of app/state, everything else from its signals. */
export interface ViewProps {
  /** The chosen runs, in the order of the list. */
  runs: readonly RunRow[];
  /** The one in focus: single-run pages show this one. */
  run: RunRow | null;
}
