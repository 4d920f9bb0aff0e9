import type { JSX } from "preact";
import { categorical } from "../../lib/colour";
import { formatPercent } from "../../lib/format";
import type { Phase, StepTime } from "../../lib/vitals";
import { theme } from "../../app/state";

const WORDS: Readonly<Record<Phase, string>> = {
  data: "data",
  forward: "forward",
  backward: "backward",
  optimizer: "optimizer",
  other: "other",
};
const COLOUR_INDEX: Readonly<Record<Phase, number>> = { data: 1, forward: 0, backward: 6, optimizer: 2, other: 7 };

/** What a step spends its time on; the largest part in words. */
export function SplitBar({ split }: { readonly split: StepTime["split"] }): JSX.Element {
  const palette = categorical(theme.value);
  const shown = split.filter(([, share]) => share > 0.001);
  const words = shown.map(([phase, share]) => `${WORDS[phase]} ${formatPercent(share)}`).join(", ");
  const largest = shown.reduce((most, each) => (each[1] > most[1] ? each : most), ["other", 0] as const);
  return (
    <span class="split" title={words}>
      <span class="split-bar" role="img" aria-label={words}>
        {shown.map(([phase, share]) => (
          <span key={phase} style={{ width: `${share * 100}%`, background: palette[COLOUR_INDEX[phase]] }} />
        ))}
      </span>
      <span>
        {WORDS[largest[0]]} {formatPercent(largest[1])}
      </span>
    </span>
  );
}
