import type { JSX } from "preact";

export interface SegmentOption<Value extends string> {
  readonly value: Value;
  readonly label: string;
  /** Why it cannot be chosen. */
  readonly missing?: string | undefined;
  readonly hint?: string;
}

export interface SegmentsProps<Value extends string> {
  readonly options: readonly SegmentOption<Value>[];
  readonly value: Value;
  readonly onChange: (value: Value) => void;
  readonly label: string;
}

/** A few choices of which one holds. */
export function Segments<Value extends string>({ options, value, onChange, label }: SegmentsProps<Value>): JSX.Element {
  return (
    <div class="segments" role="radiogroup" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          role="radio"
          class={`segment ${option.missing ? "segment-empty" : ""}`}
          aria-checked={option.value === value}
          title={option.missing ?? option.hint}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}

export const VALUE_AXES = [
  { value: "linear", label: "linear", hint: "Equal distances are equal differences" },
  { value: "symlog", label: "symlog", hint: "Linear around zero up to the typical value, logarithmic beyond" },
  { value: "log", label: "log", hint: "Logarithm of the magnitude, on both sides of zero" },
] as const;
