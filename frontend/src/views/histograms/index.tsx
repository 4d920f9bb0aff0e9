import type { JSX } from "preact";
import { rank, setParam } from "../../app/state";
import type { ViewProps } from "../../app/view";
import { firstKind, presentKinds } from "../layers/kinds";
import { shownName } from "../../lib/tensor-name";
import { useColumns, useRun } from "../../wire/client";
import type { HeatAnswer, Kind, RunDetails, RunRow } from "../../wire/types";
import { KindChoice } from "../layers/controls";
import { NoTensors } from "../layers/empty";
import { heatAnswer } from "../layers/heat-table";
import { histogramChoices } from "./choices";
import { TensorHistogram } from "./tensor-histogram";
import { TensorList } from "./tensor-list";
import "../layers/layers.css";
import "./histograms.css";

/** The bins of one tensor at one step, as the sketch counted them; two compared; all of them over time. */
export function HistogramsView({ run, runs }: ViewProps): JSX.Element {
  const details = useRun(run?.name ?? null);
  if (!run) return <p class="hint">Select a run from the list.</p>;
  return <Histograms key={run.name} run={run} runs={runs} details={details} />;
}

interface HistogramsProps {
  readonly run: RunRow;
  readonly runs: readonly RunRow[];
  readonly details: RunDetails | null;
}

/** Enough for a curve as small as those of the list. */
const HINT_COLUMNS = 24;

function Histograms({ run, runs, details }: HistogramsProps): JSX.Element {
  const choices = histogramChoices();
  const present = presentKinds(details);
  const kind = choices.kind ?? firstKind(present);
  const isKnown = choices.kind !== null || details !== null;
  const { answers, error, loading } = useColumns(() =>
    isKnown ? [{ what: "heat", run: run.name, kind, statistic: "rms", columns: HINT_COLUMNS, rank: rank.value }] : [],
  );
  const hints = heatAnswer(answers?.[0]);
  const failed = answers?.find((each) => each?.what === "failed");
  const names = namesOf(hints, details, kind);
  const tensor = choices.tensor !== null && names.includes(choices.tensor) ? choices.tensor : names[0];
  return (
    <div class="tensors">
      <div class="tensor-controls">
        <KindChoice kind={kind} present={present} onChange={(next) => setParam("histograms.kind", next)} />
        {choices.tensor !== null && names.length > 0 && tensor !== choices.tensor && (
          <p class="muted">
            This run has no “{shownName(choices.tensor)}” among its {kind}s.
          </p>
        )}
      </div>
      {(error ?? failed?.error) && (
        <p class="bad" role="alert">
          {error ?? failed?.error}
        </p>
      )}
      {names.length === 0 &&
        (loading || !isKnown ? (
          <p class="hint">Reading the run …</p>
        ) : (
          <NoTensors run={run} kind={kind} present={present} />
        ))}
      {tensor !== undefined && (
        <div class="histograms">
          <TensorList
            names={names}
            selected={tensor}
            hints={hints}
            onSelect={(name) => setParam("histograms.tensor", name)}
          />
          <TensorHistogram
            key={`${kind} ${tensor}`}
            run={run}
            runs={runs}
            kind={kind}
            name={tensor}
            choices={choices}
          />
        </div>
      )}
    </div>
  );
}

const NO_NAMES: readonly string[] = [];

function namesOf(hints: HeatAnswer | null, details: RunDetails | null, kind: Kind): readonly string[] {
  if (hints) return hints.names;
  return details?.series.filter((each) => each.kind === kind).map((each) => each.name) ?? NO_NAMES;
}
