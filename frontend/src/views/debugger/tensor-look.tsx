import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { formatCount, formatNumber } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { valueAxis } from "../../lib/value-axis";
import { VIEW_STATISTICS, type Matrix, type TensorLook } from "../../wire/debugger-types";
import { HistogramChart } from "../histograms/histogram-chart";
import { MatrixChart } from "./matrix-chart";

interface LookProps {
  readonly look: TensorLook;
  readonly name: string;
  readonly slice: string;
}

const LABELS: Readonly<Record<string, string>> = {
  count: "values",
  pos_inf: "+Inf",
  neg_inf: "−Inf",
  nan: "NaN",
};
const COUNTS = new Set(["count", "zeros", "nan", "pos_inf", "neg_inf"]);
const BAD = new Set(["nan", "pos_inf", "neg_inf"]);

/** Statistics, histogram and the slice of one tensor, or of a difference. */
export function Look({ look, name, slice }: LookProps): JSX.Element {
  // One value needs no picture.
  if (look.statistics["count"] === 1) return <p class="debug-scalar">{formatNumber(look.cells?.values[0], 8)}</p>;
  return (
    <div class="debug-look">
      <Statistics statistics={look.statistics} />
      <LookHistogram look={look} name={name} />
      {look.cells && look.cells.values.length > 0 ? (
        <MatrixChart
          matrix={look.cells}
          label={`Heat map of ${shownName(name)}${slice}, ${sizeWords(look.cells)}. Arrow keys go from cell to cell.`}
          exportName={`${name}-${slice}`}
        />
      ) : (
        <p class="hint">There are no values in this slice.</p>
      )}
    </div>
  );
}

function sizeWords({ height, width }: Matrix): string {
  return `${height} ${height === 1 ? "row" : "rows"} and ${width} ${width === 1 ? "column" : "columns"}`;
}

export function Statistics({ statistics }: { readonly statistics: TensorLook["statistics"] }): JSX.Element {
  const shown = VIEW_STATISTICS.filter((each) => statistics[each] !== undefined);
  return (
    <dl class="debug-statistics">
      {shown.map((each) => {
        const value = statistics[each] ?? NaN;
        return (
          <div key={each} class={BAD.has(each) && value > 0 ? "bad" : ""}>
            <dt>{LABELS[each] ?? each}</dt>
            <dd>{COUNTS.has(each) ? formatCount(value) : formatNumber(value, 5)}</dd>
          </div>
        );
      })}
    </dl>
  );
}

function LookHistogram({ look, name }: Omit<LookProps, "slice">): JSX.Element | null {
  const { histogram, statistics } = look;
  const all = useMemo(() => {
    const nonfinite = ["nan", "pos_inf", "neg_inf"].reduce((sum, each) => sum + (statistics[each] ?? 0), 0);
    return histogram ? [{ bins: histogram, nonfinite }] : [];
  }, [look]);
  const axis = useMemo(() => {
    const [low, high] = [histogram?.lower[0], histogram?.upper.at(-1)];
    return low === undefined || high === undefined ? null : valueAxis("linear", low, high, 0);
  }, [histogram]);
  if (!axis || !histogram) return null;
  return (
    <HistogramChart
      histograms={all}
      axis={axis}
      mode="density"
      log={false}
      label={`Histogram of ${shownName(name)}`}
      exportName={`${name}-histogram`}
      height={150}
    />
  );
}
