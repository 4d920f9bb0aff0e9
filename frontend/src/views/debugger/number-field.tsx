import type { JSX } from "preact";
import { TypedField } from "./typed-field";

interface NumberFieldProps {
  readonly label: string;
  readonly value: number | null;
  readonly onChange: (next: number) => void;
  readonly hint?: string;
}

/** A number in any way of writing it, such as 1e-4. */
export function NumberField({ label, value, onChange, hint }: NumberFieldProps): JSX.Element {
  const set = (typed: string): string | undefined => {
    const found = Number(typed.trim().replace("−", "-"));
    if (typed.trim() === "" || Number.isNaN(found)) return "Enter a number";
    if (found !== value) onChange(found);
    return undefined;
  };
  return (
    <TypedField
      class="debug-number"
      label={label}
      value={value === null ? "" : String(value)}
      onChange={set}
      {...(hint === undefined ? {} : { hint })}
    />
  );
}
