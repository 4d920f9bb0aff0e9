import type { JSX } from "preact";
import { page, setParam } from "../../app/state";
import { formatNumber, formatPercent } from "../../lib/format";
import { moduleOfActivation, parameterNames } from "../../lib/graph-health";
import { plainName, shapeText } from "../../lib/graph-text";
import { useColumns } from "../../wire/client";
import type { GraphNode, Kind, RunRow, TableAnswer } from "../../wire/types";
import { tableQuery } from "./colours";
import { Fact, MOST_SHAPES } from "./facts";
import type { GraphState } from "./graph-state";

const KINDS = ["weight", "gradient", "update", "activation"] as const;
const MOST_ROWS = 60;

interface NumbersProps {
  readonly run: RunRow;
  readonly state: GraphState;
  readonly module: GraphNode;
}

/** The newest statistics of the module's own parameters and of its output. */
export function Numbers({ run, state, module }: NumbersProps): JSX.Element | null {
  const { answers } = useColumns(() => KINDS.map((kind) => tableQuery(run.name, kind)));
  const tables = new Map(KINDS.map((kind, place) => [kind, answers?.[place]] as const));
  const read = (kind: Kind, statistic: string) => (series: string): number => {
    const table = tables.get(kind as (typeof KINDS)[number]) as TableAnswer | undefined;
    if (table?.what !== "table") return NaN;
    const place = table.names.indexOf(series);
    return place < 0 ? NaN : (table.statistics.get(statistic)?.[place] ?? NaN);
  };
  const activation = tables.get("activation") as TableAnswer | undefined;
  const outputs = activation?.what === "table" ? activation.names.filter((name) => moduleOfActivation(state.tree.byName, name) === module.name) : [];
  const names = parameterNames(state.tree, module.name);
  const nameOf = (own: string): string => names.find((name) => !Number.isNaN(read("weight", "norm")(name)) && name.endsWith(own)) ?? `${module.name}.${own}`;
  return (
    <>
      {module.own_parameters.length > 0 && (
        <section>
          <h4>Own parameters</h4>
          <div class="graph-scroll">
            <table class="graph-table">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Shape</th>
                  <th title="Norm of the weight">Weight</th>
                  <th title="Norm of the gradient">Gradient</th>
                  <th title="Norm of the update divided by that of the weight">Update ÷ weight</th>
                </tr>
              </thead>
              <tbody>
                {module.own_parameters.slice(0, MOST_ROWS).map((own) => (
                  <tr key={own.name}>
                    <td>
                      <SeriesLink kind="weight" name={nameOf(own.name)} text={own.name} />
                      {!own.trainable && <span class="muted"> frozen</span>}
                    </td>
                    <td title={own.dtype}>{shapeText(own.shape)}</td>
                    <td>{numberText(read("weight", "norm")(nameOf(own.name)))}</td>
                    <td>{numberText(read("gradient", "norm")(nameOf(own.name)))}</td>
                    <td>{numberText(read("update", "ratio")(nameOf(own.name)))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {outputs.slice(0, MOST_SHAPES).map((series) => (
        <section key={series}>
          <h4>
            Output <SeriesLink kind="activation" name={series} text={outputs.length > 1 ? series : "over time"} />
          </h4>
          <dl class="graph-facts">
            <Fact label="rms">{numberText(read("activation", "rms")(series))}</Fact>
            <Fact label="mean ± std">
              {numberText(read("activation", "mean")(series))} ± {numberText(read("activation", "std")(series))}
            </Fact>
            <Fact label="Zeros">{shareText(read("activation", "zeros")(series))}</Fact>
            <Fact label="Inactive units">{shareText(read("activation", "inactive_units")(series))}</Fact>
            <Fact label="Not finite">{shareText(read("activation", "nonfinite")(series))}</Fact>
          </dl>
        </section>
      ))}
    </>
  );
}

function numberText(value: number): string {
  return Number.isNaN(value) ? "–" : formatNumber(value, 3);
}

function shareText(value: number): string {
  return Number.isNaN(value) ? "–" : formatPercent(value);
}

interface SeriesLinkProps {
  readonly kind: Kind;
  readonly name: string;
  readonly text: string;
}

/** To the histograms of a series. */
function SeriesLink({ kind, name, text }: SeriesLinkProps): JSX.Element {
  const go = (): void => {
    setParam("histograms.kind", kind);
    setParam("histograms.name", name);
    page.value = "histograms";
  };
  return (
    <button type="button" class="link" title="Histograms over time" onClick={go}>
      <bdi>{plainName(text)}</bdi>
    </button>
  );
}
