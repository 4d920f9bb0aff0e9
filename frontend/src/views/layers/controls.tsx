import type { JSX } from "preact";
import { setParam } from "../../app/state";
import { KINDS, statisticsOf, type TensorStatistic } from "../../lib/tensor-statistics";
import type { Kind } from "../../wire/types";
import type { Colouring, LayerChoices } from "./choices";
import { Segments } from "./segments";

export interface LayerControlsProps {
  readonly choices: LayerChoices;
  readonly kind: Kind;
  readonly statistic: TensorStatistic;
  /** Kinds of which the run has samples; null while nobody knows. */
  readonly present: ReadonlySet<Kind> | null;
  /** Whether names are in groups now; null while there are no names. */
  readonly grouped: boolean | null;
  readonly onOpenAll: (open: boolean) => void;
}

const COLOURINGS: readonly (readonly [Colouring, string])[] = [
  ["robust", "values, robust range"],
  ["full", "values, full range"],
  ["own", "vs own median"],
];

export function LayerControls(props: LayerControlsProps): JSX.Element {
  const { choices, kind, statistic, present } = props;
  return (
    <div class="tensor-controls">
      <KindChoice kind={kind} present={present} onChange={(next) => setParam("layers.kind", next)} />
      <label class="setting" title={statistic.meaning}>
        Statistic
        <select value={statistic.name} onChange={(event) => setParam("layers.stat", event.currentTarget.value)}>
          {statisticsOf(kind).map((each) => (
            <option key={each.name} value={each.name} title={each.meaning}>
              {each.label}
            </option>
          ))}
        </select>
      </label>
      <label class="setting">
        Colours
        <select
          value={choices.colouring}
          onChange={(event) =>
            setParam("layers.colours", event.currentTarget.value === "robust" ? null : event.currentTarget.value)
          }
        >
          {COLOURINGS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <input
        type="search"
        class="tensor-search"
        placeholder="Search names"
        aria-label="Search tensors by name"
        title={'Part of a name; in quotes, "encoder.1" matches that layer only'}
        value={choices.search}
        onInput={(event) => setParam("layers.search", event.currentTarget.value || null)}
      />
      <GroupChoice {...props} />
    </div>
  );
}

function GroupChoice({ grouped, onOpenAll }: LayerControlsProps): JSX.Element | null {
  if (grouped === null) return null;
  return (
    <div class="tensor-groups">
      <label class="setting">
        <input type="checkbox" checked={grouped} onChange={() => setParam("layers.groups", grouped ? "0" : "1")} />
        Groups
      </label>
      {grouped && (
        <>
          <button type="button" class="link" onClick={() => onOpenAll(true)}>
            open all
          </button>
          <button type="button" class="link" onClick={() => onOpenAll(false)}>
            close all
          </button>
        </>
      )}
    </div>
  );
}

export interface KindChoiceProps {
  readonly kind: Kind;
  readonly present: ReadonlySet<Kind> | null;
  readonly onChange: (kind: Kind) => void;
}

export function KindChoice({ kind, present, onChange }: KindChoiceProps): JSX.Element {
  const shown = KINDS.filter((each) => each.kind !== "tensor" || present?.has("tensor") || kind === "tensor");
  const options = shown.map((each) => ({
    value: each.kind,
    label: each.label,
    missing: present && !present.has(each.kind) ? "Not sampled in this run" : undefined,
  }));
  return <Segments options={options} value={kind} onChange={onChange} label="Tensor kind" />;
}
