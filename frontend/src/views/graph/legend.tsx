import type { JSX } from "preact";
import { theme } from "../../app/state";
import { rampColour, sequentialRamp } from "../../lib/colourmap";
import { valueText } from "./paint-boxes";
import type { Colours } from "./picture";

const STOPS = 12;

/** What the colours stand for, from end to end. */
export function Legend({ colours }: { readonly colours: Colours }): JSX.Element {
  const { scale, measure, health, isLoading } = colours;
  const isKnown = [...health.values()].some(({ parts }) => parts.length > 0);
  if (!isKnown && isLoading) return <span class="graph-legend muted">Loading …</span>;
  if (!isKnown) return <span class="graph-legend muted">not recorded in this run</span>;
  const ramp = sequentialRamp(theme.value);
  const stops = Array.from({ length: STOPS + 1 }, (_, stop) => rampColour(ramp, stop / STOPS));
  const title = `${measure.label}: ${measure.meaning}.${scale.above || scale.below ? " A few values lie beyond the ends." : ""}`;
  return (
    <span class="graph-legend" title={title}>
      <span>{valueText(measure, scale.low)}</span>
      <span class="graph-ramp" style={{ background: `linear-gradient(90deg, ${stops.join(", ")})` }} />
      <span>{valueText(measure, scale.high)}</span>
    </span>
  );
}
