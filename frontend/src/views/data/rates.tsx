import type { JSX } from "preact";
import { axis, colourOf, logY, smoothing, theme } from "../../app/state";
import { LineChart, type LineSeries } from "../../charts/line-chart";
import { categorical } from "../../lib/colour";
import { curveOf } from "../../lib/curves";
import { formatNumber } from "../../lib/format";
import type { RunDetails, RunRow } from "../../wire/types";
import { axisProps, originOf, useRunScalars } from "../resources/run-scalars";

interface RatesProps {
  readonly run: RunRow;
  readonly details: RunDetails;
}

const MOST_GROUPS = 16;

/** The learning rates of all parameter groups in one chart. */
export function LearningRates({ run, details }: RatesProps): JSX.Element {
  const names = details.scalars.filter((name) => /^lr\/\d+$/.test(name)).slice(0, MOST_GROUPS);
  const data = useRunScalars(run, names, 300);
  const colours = categorical(theme.value);
  const series = names.flatMap((name, place): LineSeries[] => {
    const columns = data.scalars.get(name);
    if (!columns) return [];
    const colour = names.length === 1 ? colourOf(run.name) : (colours[place % colours.length] ?? "");
    const { low: _low, high: _high, ...curve } = curveOf(columns, axis.value, smoothing.value, originOf(data.all));
    return [{ label: names.length === 1 ? "learning rate" : `group ${name.slice(3)}`, colour, ...curve }];
  });
  return (
    <div class="card page-card">
      <LineChart
        {...axisProps(data.all)}
        title={names.length > 1 ? "Learning rates of the parameter groups" : "Learning rate"}
        series={series}
        formatY={(value) => formatNumber(value, 3)}
        logY={logY.value}
        syncKey="steps"
        exportName="learning-rates"
        height={190}
        empty={names.length === 0 ? noRates(details) : "Loading …"}
      />
    </div>
  );
}

function noRates(details: RunDetails): string {
  if (details.kind === "summary") return "A SummaryWriter does not record learning rates automatically.";
  return "No learning rate was recorded: nd.watch was not given the optimizer, or the rate is stored on a device.";
}
