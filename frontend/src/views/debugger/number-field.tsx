import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

interface NumberFieldProps {
  readonly label: string;
  readonly value: number | null;
  readonly onChange: (next: number) => void;
  readonly hint?: string;
}

/** A number in any way of writing it, such as 1e-4; Enter sets it, Escape takes back what was typed. */
export function NumberField({ label, value, onChange, hint }: NumberFieldProps): JSX.Element {
  const isWrong = useSignal(false);
  const set = (field: HTMLInputElement): void => {
    const typed = numberOf(field.value);
    isWrong.value = typed === null;
    if (typed !== null && typed !== value) onChange(typed);
  };
  return (
    <input
      type="text"
      inputMode="decimal"
      class="debug-number"
      aria-label={label}
      aria-invalid={isWrong.value}
      title={isWrong.value ? "That is no number" : hint}
      spellcheck={false}
      value={value === null ? "" : String(value)}
      onChange={(event) => set(event.currentTarget)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.currentTarget.value = value === null ? "" : String(value);
        isWrong.value = false;
      }}
    />
  );
}

function numberOf(text: string): number | null {
  const found = Number(text.trim().replace("−", "-"));
  return text.trim() === "" || Number.isNaN(found) ? null : found;
}
