import type { JSX } from "preact";
import { steer } from "../../app/debugger";
import { formatNumber } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import type { DebuggerEntry, LearningRate } from "../../wire/debugger-types";
import { listTensorsOfKind } from "./choices";
import { NumberField } from "./number-field";

/** Learning rates, which can be changed while the training is paused or runs. */
export function OptimizerPanel({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const rates = shown.state.learning_rates;
  return (
    <div class="debug-stacked">
      {rates.length === 0 ? (
        <p class="hint">The run has reported no optimizer.</p>
      ) : (
        <p class="muted">
          Learning rates. Press Enter to set a new one from the next update on; a scheduler may change it again.
        </p>
      )}
      {rates.map((rate) => (
        <Rate key={`${rate.optimizer}/${rate.group}`} rate={rate} />
      ))}
      {rates.length > 0 && (
        <p>
          <button type="button" class="link" onClick={() => listTensorsOfKind("state")}>
            Show the optimizer's tensors
          </button>
        </p>
      )}
    </div>
  );
}

function Rate({ rate }: { readonly rate: LearningRate }): JSX.Element {
  const { optimizer, group, name, value } = rate;
  const title = `${name || "Optimizer"}${optimizer > 0 ? ` ${optimizer}` : ""}, group ${group}`;
  return (
    <div class="debug-row debug-rate">
      <span>
        <bdi>{shownName(title)}</bdi>
      </span>
      <span class="grow" />
      <span class="muted">{formatNumber(value, 5)} →</span>
      <NumberField
        label={`Learning rate of ${title}`}
        hint="Press Enter to set it"
        value={value}
        onChange={(next) => void steer("set_learning_rate", { optimizer, group, value: next })}
      />
    </div>
  );
}
