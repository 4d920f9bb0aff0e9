import type { JSX } from "preact";
import { entry } from "../../app/debugger";
import { shownName } from "../../lib/tensor-name";

/** Before an answer has come: why there is none, or that it is on its way. */
export function Waiting({ error, what }: { readonly error: string | null; readonly what: string }): JSX.Element {
  if (error) return <p class="hint bad">{shownName(error)}</p>;
  const isPaused = entry.value?.state.status === "paused";
  return <p class="hint">{isPaused ? `Loading ${what} …` : `Pause the run to see ${what}.`}</p>;
}
