import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../app/icons";

const IN_CODE = "nd.watch(model, optimizer, debugger=True)";
const FROM_SHELL = "netdebug run --debugger train.py";

/** How a training comes to be listed here. */
export function Arm(): JSX.Element {
  return (
    <section class="notice">
      <h2>No run can be paused yet</h2>
      <p>A run can be paused if it was started with the debugger, in its code or from the shell:</p>
      <Copyable text={IN_CODE} />
      <Copyable text={FROM_SHELL} />
      <p class="muted">
        This cannot be turned on from the page: opening the page must not be enough to take control of a run. Runs that
        can be paused appear here automatically.
      </p>
    </section>
  );
}

function Copyable({ text }: { readonly text: string }): JSX.Element {
  const copied = useSignal(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    copied.value = true;
  };
  return (
    <div class="copyable">
      <code>{text}</code>
      {/* Browsers offer the clipboard over https and on this machine only. */}
      {"clipboard" in navigator && (
        <button type="button" class="button" onClick={() => void copy()}>
          <Icon name={copied.value ? "check" : "copy"} /> {copied.value ? "Copied" : "Copy"}
        </button>
      )}
    </div>
  );
}
