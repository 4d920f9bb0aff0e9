import type { JSX } from "preact";
import { theme } from "../../app/state";
import { formatCount, formatPercent } from "../../lib/format";
import type { Histogram } from "../../wire/types";
import { colourOfSide } from "./histogram-picture";

export interface BesideProps {
  readonly histograms: readonly Histogram[];
}

/** Values that have no place on the axis: zeros, and what is not finite. */
export function Beside({ histograms }: BesideProps): JSX.Element {
  const rows = [
    { label: "exactly 0", bad: false, of: (each: Histogram) => each.zeros },
    { label: "NaN", bad: true, of: (each: Histogram) => each.nan },
    { label: "+Inf", bad: true, of: (each: Histogram) => each.pos_inf },
    { label: "−Inf", bad: true, of: (each: Histogram) => each.neg_inf },
  ];
  return (
    <dl class="beside" aria-label="Values not on the axis">
      {rows.map(({ label, bad, of }) => (
        <div key={label} class={histograms.some((each) => of(each) > 0) ? (bad ? "beside-bad" : "") : "beside-none"}>
          <dt>{label}</dt>
          {histograms.map((each, which) => (
            <dd key={which}>
              <span class="beside-track">
                <span
                  class={bad ? "beside-bar heat-striped" : "beside-bar"}
                  style={{
                    width: `${barWidth(of(each), countOf(each))}%`,
                    ...(bad ? {} : { background: colourOfSide(which, theme.value) }),
                  }}
                />
              </span>
              <span>
                {histograms.length > 1 && <b>{"AB"[which]} </b>}
                {formatCount(of(each))}
              </span>
              <span class="muted">{of(each) > 0 ? formatPercent(of(each) / countOf(each)) : ""}</span>
            </dd>
          ))}
        </div>
      ))}
    </dl>
  );
}

/** All values, those off the axis among them. */
export function countOf(histogram: Histogram): number {
  const finite = histogram.counts.reduce((sum, count) => sum + count, 0);
  return finite + histogram.nan + histogram.pos_inf + histogram.neg_inf;
}

/** A single value among millions still shows a sliver. */
function barWidth(count: number, total: number): number {
  return count > 0 && total > 0 ? Math.max(1.5, (100 * count) / total) : 0;
}
