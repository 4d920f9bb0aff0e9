import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../app/icons";
import { shownName } from "../../lib/tensor-name";
import { useColumns, useRun } from "../../wire/client";
import type { DebuggerEntry } from "../../wire/debugger-types";
import type { BandsAnswer, Kind, RunRow } from "../../wire/types";
import { BandsChart } from "../layers/bands-chart";
import { openHistogram, openLayer, valueScale } from "../layers/choices";
import { boundsOf, shownWindow, stepMoves } from "../layers/steps";
import { focusRun } from "../../app/state";
import { runOf } from "./marks";

const KINDS: Readonly<Record<string, Kind>> = {
  weight: "weight",
  gradient: "gradient",
  update: "update",
  output: "activation",
  user: "tensor",
};
const COLUMNS = 200;

interface TensorTimeProps {
  readonly shown: DebuggerEntry;
  readonly name: string;
}

/** What the run has recorded of the tensor so far; nothing where it has not. */
export function TensorTime({ shown, name }: TensorTimeProps): JSX.Element | null {
  const run = runOf(shown);
  const details = useRun(run?.name ?? null);
  const colon = name.indexOf(":");
  const [kind, own] = [KINDS[name.slice(0, colon)], name.slice(colon + 1)];
  const isRecorded = details?.series.some((each) => each.kind === kind && each.name === own) ?? false;
  const { answers } = useColumns(() =>
    run && kind && isRecorded
      ? [{ what: "bands", run: run.name, kind, name: own, columns: COLUMNS, rank: shown.session.rank }]
      : [],
  );
  const [answer] = answers ?? [];
  if (!run || !kind || answer?.what !== "bands" || answer.first.length === 0) return null;
  return <Recorded run={run} kind={kind} name={own} answer={answer} />;
}

interface RecordedProps {
  readonly run: RunRow;
  readonly kind: Kind;
  readonly name: string;
  readonly answer: BandsAnswer;
}

function Recorded({ run, kind, name, answer }: RecordedProps): JSX.Element | null {
  const step = useSignal<number | null>(null);
  const bounds = boundsOf(run);
  const window = shownWindow(answer.first, answer.last, bounds);
  if (!bounds || !window) return null;
  const open = (page: () => void): void => {
    focusRun(run.name);
    page();
  };
  return (
    <section class="debug-time">
      <h4>
        Recorded so far <span class="grow" />
        <button type="button" class="link" onClick={() => open(() => openLayer(kind, name))}>
          Layers <Icon name="chevron" />
        </button>
        <button type="button" class="link" onClick={() => open(() => openHistogram(kind, name, null))}>
          Histograms <Icon name="chevron" />
        </button>
      </h4>
      <BandsChart
        answer={answer}
        window={window}
        scale={valueScale()}
        moves={stepMoves(window, bounds)}
        step={step}
        onPick={(at) => open(() => openHistogram(kind, name, at))}
        name={shownName(name)}
        exportName={`${run.name}-${kind}-${name}-quantiles`}
      />
    </section>
  );
}
