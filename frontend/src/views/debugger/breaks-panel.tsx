import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { steer } from "../../app/debugger";
import { shownName } from "../../lib/tensor-name";
import { PHASES, type Breakpoint, type DebuggerEntry } from "../../wire/debugger-types";
import { NumberField } from "./number-field";
import { PointRow } from "./point-row";
import { TypedField } from "./typed-field";

type Draft = Pick<Breakpoint, "layer" | "phase" | "step">;

const PHASE_WORDS: Readonly<Record<string, string>> = {
  forward: "forward",
  backward: "backward",
  optimizer: "optimizer's step",
  end: "end of the batch",
};
const OF_LAYERS = new Set(["forward", "backward"]);

/** Places at which the training pauses. */
export function BreaksPanel({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const { breakpoints } = shown.state;
  const draft = useSignal<Draft>({ layer: "", phase: "forward", step: null });
  return (
    <div class="debug-stacked">
      <p class="muted">The run pauses at these places. The dot beside a layer sets one, too.</p>
      {breakpoints.map((each) => (
        <BreakpointRow key={each.id} breakpoint={each} />
      ))}
      <section class="debug-row debug-draft" aria-label="New breakpoint">
        <Fields draft={draft.value} onChange={(next) => (draft.value = next)} />
        <button type="button" class="button" onClick={() => void set(null, draft.peek(), true)}>
          Add
        </button>
      </section>
    </div>
  );
}

async function set(id: number | null, { layer, phase, step }: Draft, isOn: boolean): Promise<void> {
  const pattern = OF_LAYERS.has(phase) ? layer || null : null;
  await steer("set_breakpoint", { id, layer: pattern, phase, step, is_on: isOn });
}

function BreakpointRow({ breakpoint }: { readonly breakpoint: Breakpoint }): JSX.Element {
  const { id, is_on, hits } = breakpoint;
  const name = `${breakpoint.layer ?? ""} ${PHASE_WORDS[breakpoint.phase] ?? breakpoint.phase}`.trim();
  return (
    <PointRow
      name={`Breakpoint: ${shownName(name)}`}
      isOn={is_on}
      hits={hits}
      onSwitch={() => void set(id, breakpoint, !is_on)}
      onRemove={() => void steer("remove_breakpoint", { id })}
    >
      <Fields draft={breakpoint} onChange={(next) => void set(id, next, is_on)} />
    </PointRow>
  );
}

function Fields({ draft, onChange }: { readonly draft: Draft; readonly onChange: (next: Draft) => void }): JSX.Element {
  return (
    <span class="debug-condition">
      <select
        aria-label="Phase"
        value={draft.phase}
        onChange={(event) => onChange({ ...draft, phase: event.currentTarget.value })}
      >
        {PHASES.map((each) => (
          <option key={each} value={each}>
            {PHASE_WORDS[each]}
          </option>
        ))}
      </select>
      {OF_LAYERS.has(draft.phase) && (
        <TypedField
          class="debug-pattern"
          label="Layer pattern"
          hint="A regular expression; the run pauses at layers whose names match"
          placeholder="any layer"
          value={draft.layer ?? ""}
          onChange={(typed) => onChange({ ...draft, layer: typed })}
        />
      )}
      <label class="setting">
        from batch
        <NumberField
          label="From batch"
          hint="Leave empty to start now"
          value={draft.step}
          onChange={(next) => onChange({ ...draft, step: Math.max(0, Math.round(next)) })}
        />
      </label>
    </span>
  );
}
