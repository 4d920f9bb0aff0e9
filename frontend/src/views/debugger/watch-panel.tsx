import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { steer, told } from "../../app/debugger";
import { Icon } from "../../app/icons";
import { conditionWords, kindWords, statisticWords } from "../../lib/debugger-words";
import { shownName } from "../../lib/tensor-name";
import { parsePresets } from "../../wire/debugger-json";
import {
  COMPARISONS,
  WATCHED_KINDS,
  WATCHED_STATISTICS,
  type Condition,
  type DebuggerEntry,
  type Preset,
  type Watchpoint,
} from "../../wire/debugger-types";
import { useAsked } from "./asked";
import { NumberField } from "./number-field";
import { PointRow } from "./point-row";
import { TypedField } from "./typed-field";

const NEW: Condition = {
  kind: "gradient",
  tensors: ".*",
  statistic: "abs_max",
  comparison: ">",
  threshold: 100,
  preset: null,
};

/** Conditions on numbers of tensors that pause the training when they hold. */
export function WatchPanel({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const { watchpoints } = shown.state;
  const draft = useSignal(NEW);
  return (
    <div class="debug-stacked">
      <p class="muted">The run pauses as soon as one of these conditions is met.</p>
      {watchpoints.map((each) => (
        <WatchpointRow key={each.id} watchpoint={each} />
      ))}
      <section class="debug-row debug-draft" aria-label="New watchpoint">
        <ConditionFields condition={draft.value} onChange={(next) => (draft.value = next)} />
        <button type="button" class="button" onClick={() => void set(null, draft.peek(), true)}>
          Add
        </button>
      </section>
      <Recommended set={watchpoints} />
      {watchpoints.length > 0 && (
        <p>
          <button type="button" class="button" title="Check the tensors as they are now" onClick={() => void recheck()}>
            Check now
          </button>
        </p>
      )}
    </div>
  );
}

async function set(id: number | null, condition: Condition, isOn: boolean): Promise<void> {
  const { kind, tensors, statistic, comparison, threshold, preset } = condition;
  await steer("set_watchpoint", { id, kind, tensors, statistic, comparison, threshold, preset, is_on: isOn });
}

async function recheck(): Promise<void> {
  const value = (await steer("recheck")) as { hits?: unknown } | undefined;
  if (typeof value?.hits === "number") told.value = `${value.hits} hits now.`;
}

function WatchpointRow({ watchpoint }: { readonly watchpoint: Watchpoint }): JSX.Element {
  const { id, is_on, hits, complaint } = watchpoint;
  return (
    <PointRow
      name={conditionWords(watchpoint)}
      isOn={is_on}
      hits={hits}
      onSwitch={() => void set(id, watchpoint, !is_on)}
      onRemove={() => void steer("remove_watchpoint", { id })}
      note={complaint && shownName(complaint)}
    >
      <ConditionFields condition={watchpoint} onChange={(next) => void set(id, { ...next, preset: null }, is_on)} />
    </PointRow>
  );
}

interface FieldsProps {
  readonly condition: Condition;
  readonly onChange: (next: Condition) => void;
}

function ConditionFields({ condition, onChange }: FieldsProps): JSX.Element {
  const { kind, tensors, statistic, comparison, threshold } = condition;
  const statisticTo = (next: string): void => {
    if (next === "nonfinite") onChange({ ...condition, statistic: next, comparison: "is", threshold: null });
    else if (comparison !== "is") onChange({ ...condition, statistic: next });
    else onChange({ ...condition, statistic: next, comparison: ">", threshold: threshold ?? 100 });
  };
  return (
    <span class="debug-condition">
      <Choice
        label="Kind"
        value={kind}
        options={WATCHED_KINDS}
        words={kindWords}
        onChange={(next) => onChange({ ...condition, kind: next })}
      />
      <TypedField
        class="debug-pattern"
        label="Name pattern"
        hint="A regular expression; tensors whose names match are watched"
        placeholder="all names"
        value={tensors}
        onChange={(typed) => onChange({ ...condition, tensors: typed })}
      />
      <Choice
        label="Statistic"
        value={statistic}
        options={WATCHED_STATISTICS}
        words={statisticWords}
        onChange={statisticTo}
      />
      {comparison !== "is" && (
        <>
          <Choice
            label="Comparison"
            value={comparison}
            options={COMPARISONS.filter((each) => each !== "is")}
            words={(each) => each}
            onChange={(next) => onChange({ ...condition, comparison: next })}
          />
          <NumberField
            label="Threshold"
            value={threshold}
            onChange={(next) => onChange({ ...condition, threshold: next })}
          />
        </>
      )}
    </span>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly string[];
  readonly words: (option: string) => string;
  readonly onChange: (next: string) => void;
}

function Choice({ label, value, options, words, onChange }: ChoiceProps): JSX.Element {
  const all = options.includes(value) ? options : [value, ...options];
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {all.map((each) => (
        <option key={each} value={each}>
          {words(each)}
        </option>
      ))}
    </select>
  );
}

/** Set with one click: what most people want to be told of. */
function Recommended({ set: there }: { readonly set: readonly Watchpoint[] }): JSX.Element | null {
  const { value } = useAsked("presets", {}, parsePresets, { once: true });
  if (!value || value.length === 0) return null;
  const isThere = (preset: Preset): boolean => there.some((each) => each.preset === preset.preset);
  const missing = value.filter((each) => !isThere(each));
  return (
    <section class="debug-presets" aria-label="Recommended watchpoints">
      <h4>
        Recommended
        {missing.length > 1 && (
          <button type="button" class="link" onClick={() => missing.forEach((each) => void set(null, each, true))}>
            Add all
          </button>
        )}
      </h4>
      {value.map((each) => (
        <button
          key={each.preset ?? each.title}
          type="button"
          class="button"
          disabled={isThere(each)}
          title={`${conditionWords(each)}. ${each.advice}`}
          onClick={() => void set(null, each, true)}
        >
          {isThere(each) && <Icon name="check" />} {shownName(each.title)}
        </button>
      ))}
    </section>
  );
}
