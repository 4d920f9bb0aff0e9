import type { JSX } from "preact";
import { formatNumber, formatPercent } from "../../lib/format";
import { columnOf, moduleOfActivation, parameterNames } from "../../lib/graph-health";
import { plainName, shapeText } from "../../lib/graph-text";
import { useColumns } from "../../wire/client";
import type { GraphNode, Kind, RunRow } from "../../wire/types";
import { openHistogram, openLayer } from "../layers/choices";
import { tableOf, tableQuery } from "./colours";
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
  const tables = new Map(KINDS.map((kind, place) => [kind, tableOf(answers?.[place])] as const));
  const read = (kind: (typeof KINDS)[number], statistic: string): ((series: string) => number) => {
    const column = columnOf(tables.get(kind) ?? null, statistic);
    return (series) => column.get(series) ?? NaN;
  };
  const [weight, gradient, update] = [read("weight", "norm"), read("gradient", "norm"), read("update", "norm")];
  const outputs = (tables.get("activation")?.names ?? []).filter(
    (name) => moduleOfActivation(state.tree.byName, name) === module.name,
  );
  const names = parameterNames(state.tree, module.name);
  const nameOf = (own: string): string =>
    names.find((name) => name.endsWith(own) && !Number.isNaN(weight(name))) ?? `${module.name}.${own}`;
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
                  <th title="Norm of the update divided by that of the weight">Ratio</th>
                </tr>
              </thead>
              <tbody>
                {module.own_parameters.slice(0, MOST_ROWS).map((own) => {
                  const name = nameOf(own.name);
                  return (
                    <tr key={own.name}>
                      <td>
                        <Link
                          title="In the heat map of all layers"
                          text={own.name}
                          go={() => openLayer("weight", name)}
                        />
                        {!own.trainable && <span class="muted"> frozen</span>}
                      </td>
                      <td title={own.dtype}>{shapeText(own.shape)}</td>
                      <HistogramCell kind="weight" name={name} value={weight(name)} />
                      <HistogramCell kind="gradient" name={name} value={gradient(name)} />
                      <HistogramCell kind="update" name={name} value={update(name) / weight(name)} />
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {outputs.slice(0, MOST_SHAPES).map((series) => (
        <section key={series}>
          <h4>
            Output{outputs.length > 1 && ` ${plainName(series.slice(module.name.length))}`}
            <Link title="In the heat map of all layers" text="layers" go={() => openLayer("activation", series)} />
            <Link title="Histograms" text="histogram" go={() => openHistogram("activation", series, null)} />
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

interface LinkProps {
  readonly title: string;
  readonly text: string;
  readonly go: () => void;
}

function Link({ title, text, go }: LinkProps): JSX.Element {
  return (
    <button type="button" class="link" title={title} onClick={go}>
      <bdi>{plainName(text)}</bdi>
    </button>
  );
}

interface HistogramCellProps {
  readonly kind: Kind;
  readonly name: string;
  readonly value: number;
}

/** A number that leads to where it comes from. */
function HistogramCell({ kind, name, value }: HistogramCellProps): JSX.Element {
  if (Number.isNaN(value)) return <td>–</td>;
  return (
    <td>
      <Link title="Histogram" text={numberText(value)} go={() => openHistogram(kind, name, null)} />
    </td>
  );
}
