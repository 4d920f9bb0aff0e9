import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

export interface TypedFieldProps {
  readonly label: string;
  readonly value: string;
  /** What was typed, when Enter was pressed or the field was left; a sentence says why it will not do. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most functions that are given return nothing at all
  readonly onChange: (typed: string) => string | undefined | void;
  readonly hint?: string;
  readonly placeholder?: string;
  readonly class?: string;
  readonly maxLength?: number;
  readonly autoFocus?: boolean;
  readonly onLeave?: () => void;
}

/**
 * A field for a value that others may change, too. News of a running training come twenty times a second: what is
 * being typed stays until it is set, or taken back with Escape.
 */
export function TypedField(props: TypedFieldProps): JSX.Element {
  const { label, value, onChange, hint, placeholder = "", maxLength = 500 } = props;
  const draft = useSignal<string | null>(null);
  const wrong = useSignal<string | null>(null);
  const forget = (): void => {
    draft.value = null;
    wrong.value = null;
  };
  // At once: what is typed right afterwards is not what the new value replaces.
  useLayoutEffect(forget, [value]);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (props.autoFocus) field.current?.focus();
  }, []);
  return (
    <input
      type="text"
      ref={field}
      class={props.class ?? ""}
      aria-label={label}
      aria-invalid={wrong.value !== null}
      title={wrong.value ?? hint}
      placeholder={placeholder}
      maxLength={maxLength}
      spellcheck={false}
      value={draft.value ?? value}
      onInput={(event) => (draft.value = event.currentTarget.value)}
      onChange={(event) => {
        const typed = event.currentTarget.value;
        if (typed !== value) wrong.value = onChange(typed) ?? null;
      }}
      onBlur={props.onLeave}
      onKeyDown={(event) => {
        if (event.key === "Escape") forget();
        if (event.key === "Enter" && props.onLeave) event.currentTarget.blur();
      }}
    />
  );
}
