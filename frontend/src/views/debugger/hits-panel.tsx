import type { JSX } from "preact";
import { steer } from "../../app/debugger";
import { conditionWords, placeWords } from "../../lib/debugger-words";
import { formatCount, formatNumber } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import type { DebuggerEntry, Hit } from "../../wire/debugger-types";
import { chooseTensor } from "./choices";
import { hits, hitsError } from "./hits";

/** What the watchpoints found: the first is most likely the cause of the others. */
export function HitsPanel({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const total = shown.state.hits;
  return (
    <div class="debug-stacked">
      <p class="debug-hits-head">
        <span class="muted">In the order of execution: the first is most likely the cause of the others.</span>
        {total > 0 && (
          <button type="button" class="link" onClick={() => void steer("clear_hits")}>
            Clear
          </button>
        )}
      </p>
      {hitsError.value && <p class="bad">{hitsError.value}</p>}
      {total === 0 && <p class="hint">No watchpoint has been hit yet.</p>}
      <ol class="debug-hits">
        {hits.value.map((hit) => (
          <HitRow key={hit.number} hit={hit} isNew={shown.state.status === "paused" && hit.step === shown.state.step} />
        ))}
      </ol>
      {total > hits.value.length && hits.value.length > 0 && (
        <p class="faint">
          The first {formatCount(hits.value.length)} of {formatCount(total)} are listed.
        </p>
      )}
    </div>
  );
}

function HitRow({ hit, isNew }: { readonly hit: Hit; readonly isNew: boolean }): JSX.Element {
  return (
    <li class={`debug-hit ${isNew ? "new" : ""}`}>
      <button type="button" class="debug-hit-tensor" onClick={() => chooseTensor(hit.tensor)}>
        <bdi>{shownName(hit.tensor)}</bdi>
      </button>
      <span class="debug-hit-value">{formatNumber(hit.actual, 5)}</span>
      <span class="muted">
        {conditionWords(hit)}. Batch {formatCount(hit.step)}
        {hit.place && `, ${shownName(placeWords(hit.place))}`}.
      </span>
      {hit.advice && <span class="debug-hit-advice">{shownName(hit.advice)}</span>}
    </li>
  );
}
