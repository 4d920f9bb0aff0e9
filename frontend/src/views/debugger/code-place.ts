/** Which line of which file is shown: of the frame that was chosen, or of what was asked for by hand. */

import { effect, signal } from "@preact/signals";
import { stop } from "./asked";
import { middle, pane } from "./choices";

export interface CodePlace {
  readonly file: string;
  readonly line: number;
}

/** Innermost is 0; null: the user's own line. */
export const chosenFrame = signal<number | null>(null);
/** Asked for by hand, until the training stands elsewhere. */
export const wantedCode = signal<CodePlace | null>(null);

effect(() => {
  if (stop.value === null) return;
  chosenFrame.value = null;
  wantedCode.value = null;
});

export function showCode(file: string, line: number): void {
  wantedCode.value = { file, line };
  middle.value = "code";
  pane.value = "code";
}
