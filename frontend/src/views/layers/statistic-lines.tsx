import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { range, theme } from "../../app/state";
import { LineChart } from "../../charts/line-chart";
import { categorical } from "../../lib/colour";
import { formatPercent } from "../../lib/format";
import { percentile } from "../../lib/heat-scale";
import { statisticsOf, type TensorStatistic } from "../../lib/tensor-statistics";
import type { BandsAnswer, Kind } from "../../wire/types";

export interface StatisticLinesProps {
  readonly bands: BandsAnswer;
  readonly kind: Kind;
  readonly file: string;
}

/** The statistics of one tensor, a small chart each; those that were not measured, or never happened, are left out. */
export function StatisticLines({ bands, kind, file }: StatisticLinesProps): JSX.Element {
  const says = (each: TensorStatistic): boolean => {
    const values = bands.statistics.get(each.name);
    return values?.some((value) => Number.isFinite(value) && (each.scale !== "share" || value > 0)) ?? false;
  };
  const shown = statisticsOf(kind).filter(says);
  return (
    <div class="statistic-lines">
      {shown.map((statistic) => (
        <StatisticLine key={statistic.name} statistic={statistic} bands={bands} file={file} />
      ))}
    </div>
  );
}

interface StatisticLineProps {
  readonly statistic: TensorStatistic;
  readonly bands: BandsAnswer;
  readonly file: string;
}

function StatisticLine({ statistic, bands, file }: StatisticLineProps): JSX.Element {
  const colour = categorical(theme.value)[0] ?? "#888888";
  const y = bands.statistics.get(statistic.name) ?? new Float64Array();
  const series = useMemo(() => [{ label: statistic.label, colour, x: bands.first, y }], [bands, colour, statistic]);
  const share = statistic.scale === "share" ? { formatY: formatPercent } : {};
  return (
    <LineChart
      series={series}
      title={statistic.label}
      exportName={`${file}-${statistic.name}`}
      height={130}
      logY={statistic.scale === "log" && spansDecades(y)}
      zoom={range.value && [range.value.first, range.value.last]}
      onZoom={(zoom) => (range.value = zoom && { first: Math.floor(zoom[0]), last: Math.ceil(zoom[1]) })}
      syncKey="tensor-statistics"
      {...share}
    />
  );
}

/** A logarithmic axis over more decades than this is nothing but grid. */
const MOST_RATIO = 1e9;

/**
 * A line on a linear axis says more, until it falls so far that its small end looks like zero. A few wild steps are
 * no reason: the chart cuts them and says so.
 */
function spansDecades(values: Float64Array): boolean {
  const sizes = Array.from(values)
    .filter((value) => value > 0 && Number.isFinite(value))
    .sort((a, b) => a - b);
  const ratio = percentile(sizes, 0.97) / percentile(sizes, 0.03);
  return ratio > 30 && (sizes.at(-1) ?? NaN) / (sizes[0] ?? NaN) < MOST_RATIO;
}
