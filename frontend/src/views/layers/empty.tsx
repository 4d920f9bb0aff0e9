import type { JSX } from "preact";
import { range } from "../../app/state";
import { formatCount } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { KINDS } from "../../lib/tensor-statistics";
import type { Kind, RunRow } from "../../wire/types";

export interface NoTensorsProps {
  readonly run: RunRow;
  readonly kind: Kind;
  /** Kinds of which the run has samples; null while nobody knows. */
  readonly present: ReadonlySet<Kind> | null;
}

/** Why there is nothing to draw, and what to do about it. */
export function NoTensors({ run, kind, present }: NoTensorsProps): JSX.Element {
  if (range.value && present?.has(kind)) return <NothingInRange />;
  if (run.kind === "summary") return <SummaryOnly run={run} hasTensors={present?.has("tensor") ?? false} />;
  if (present === null || present.size === 0) return <NothingSampled run={run} />;
  return <KindMissing kind={kind} present={present} />;
}

function NothingInRange(): JSX.Element {
  const { first, last } = range.value ?? { first: 0, last: 0 };
  return (
    <section class="tensor-empty">
      <h2>
        No samples between steps {formatCount(first)} and {formatCount(last)}
      </h2>
      <p class="muted">Tensors are sampled less often than losses. Select a wider range.</p>
      <button type="button" class="button" onClick={() => (range.value = null)}>
        Show all steps
      </button>
    </section>
  );
}

function SummaryOnly({ run, hasTensors }: { readonly run: RunRow; readonly hasTensors: boolean }): JSX.Element {
  return (
    <section class="tensor-empty">
      <h2>{hasTensors ? "This run was not recorded by NetDebug" : "No histograms in this run"}</h2>
      <p class="muted">
        <bdi>{shownName(run.name)}</bdi> was written by a SummaryWriter
        {hasTensors ? "; its histograms are under “Tensors”" : " without histograms"}. Weights, gradients, updates and
        activations come with <code>nd.watch(model, optimizer)</code>.
      </p>
    </section>
  );
}

function NothingSampled({ run }: { readonly run: RunRow }): JSX.Element {
  return (
    <section class="tensor-empty">
      <h2>{run.state === "live" ? "No tensors sampled yet" : "No tensors in this run"}</h2>
      {run.state === "live" ? (
        <p class="muted">
          The first samples appear here automatically when <code>monitor.step()</code> ends the first step.
        </p>
      ) : (
        <p class="muted">
          The run has only losses and other scalars. <code>nd.watch(model, optimizer)</code> samples weights, gradients,
          updates and activations; with <code>every=1</code>, in every step.
        </p>
      )}
    </section>
  );
}

function KindMissing({ kind, present }: { readonly kind: Kind; readonly present: ReadonlySet<Kind> }): JSX.Element {
  const wanted = KINDS.find((each) => each.kind === kind);
  const others = KINDS.filter((each) => present.has(each.kind)).map((each) => each.label.toLowerCase());
  return (
    <section class="tensor-empty">
      <h2>No {wanted?.label.toLowerCase()} in this run</h2>
      <p class="muted">
        They were switched off, or there were none to sample.{" "}
        {wanted?.setting && (
          <>
            Record them with <code>nd.watch(model, optimizer, {wanted.setting})</code>.{" "}
          </>
        )}
        This run has {others.join(", ")}.
      </p>
      {kind === "update" && (
        <p class="muted">
          Updates need the optimizer: <code>nd.watch(model, optimizer)</code>.
        </p>
      )}
      {kind === "tensor" && (
        <p class="muted">
          To record your own tensors, call <code>monitor.tensor(name, value)</code>.
        </p>
      )}
    </section>
  );
}
