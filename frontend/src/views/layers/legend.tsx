import type { JSX } from "preact";
import { rampColour, wordToCss } from "../../lib/colourmap";
import { formatNumber, formatPercent } from "../../lib/format";
import type { HeatColours } from "../../lib/heat";
import type { HeatScale } from "../../lib/heat-scale";

export interface LegendProps {
  readonly scale: HeatScale;
  readonly colours: HeatColours;
  readonly title: string;
}

const STOPS = 24;

/** What the colours of the heat map mean. */
export function Legend({ scale, colours, title }: LegendProps): JSX.Element {
  const stops = Array.from({ length: STOPS + 1 }, (_, i) => rampColour(colours.ramp, i / STOPS));
  const hasZero = scale.kind === "log" || scale.kind === "change";
  return (
    <div class="heat-legend">
      <span class="heat-legend-title">{title}</span>
      <div class="heat-ramp">
        <div class="heat-ramp-colours" style={{ background: `linear-gradient(to right, ${stops.join(", ")})` }} />
        {scale.below && (
          <span class="heat-ramp-less" title="Values below the scale have this colour">
            ‹
          </span>
        )}
        {scale.above && (
          <span class="heat-ramp-more" title="Values above the scale have this colour">
            ›
          </span>
        )}
        {scale.ticks(scale.kind === "signed" ? 9 : 5).map((tick) => (
          <span key={tick.value} class="heat-ramp-tick" style={{ left: `${100 * tick.place}%` }}>
            {tickText(tick.value, scale)}
          </span>
        ))}
      </div>
      {hasZero && <Swatch title="exactly 0" colour={wordToCss(colours.zero)} />}
      <span class="heat-swatch">
        <i class="heat-striped" />
        NaN or Inf
      </span>
      <span class="heat-swatch">
        <i class="heat-unsampled" />
        no sample
      </span>
    </div>
  );
}

function Swatch({ title, colour }: { readonly title: string; readonly colour: string }): JSX.Element {
  return (
    <span class="heat-swatch">
      <i style={{ background: colour }} />
      {title}
    </span>
  );
}

function tickText(value: number, scale: HeatScale): string {
  if (scale.kind === "share") return formatPercent(value);
  if (scale.kind === "change") return `×${formatNumber(value, 2)}`;
  return formatNumber(value, 2);
}

/** How a scale is called in the legend's title. */
export function scaleName(scale: HeatScale): string {
  const names = {
    log: "log scale",
    share: "linear scale",
    signed: "symmetric log scale",
    linear: "linear scale",
    change: "log scale",
  };
  return names[scale.kind];
}
