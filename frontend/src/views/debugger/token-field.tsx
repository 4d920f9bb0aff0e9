import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../app/icons";
import { pasteToken } from "../../wire/control";

/** On a page that others can open, too: whoever was given the token pastes it. */
export function TokenField(): JSX.Element {
  const typed = useSignal("");
  const wrong = useSignal<string | null>(null);
  if (location.protocol !== "https:") {
    return (
      <p class="debug-note">
        <Icon name="info" /> Others can open this page, too. To control runs, open it over HTTPS, where it asks for a
        token.
      </p>
    );
  }
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    wrong.value = pasteToken(typed.peek());
  };
  return (
    <form class="debug-token" onSubmit={submit}>
      <label class="setting">
        Token
        <input
          type="password"
          autocomplete="off"
          aria-invalid={wrong.value !== null}
          title="The content of the file given as --netdebug_token_file. The page forgets it when you leave."
          value={typed.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button" disabled={typed.value === ""}>
        Use token
      </button>
      <span class={wrong.value === null ? "muted" : "bad"}>
        {wrong.value ?? "Without a token, the page is read-only."}
      </span>
    </form>
  );
}
