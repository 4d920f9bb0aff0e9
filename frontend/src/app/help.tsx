import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons";
import { DEBUGGER_KEYS } from "./debugger-keys";
import { KEYS } from "./keyboard";
import { helpOpen } from "./state";

/** The keys, over the page. */
export function Help(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog
      class="help"
      ref={dialog}
      onClose={() => (helpOpen.value = false)}
      onClick={(event) => {
        if (event.target === dialog.current) helpOpen.value = false;
      }}
    >
      <div class="help-head">
        <h2>Keyboard shortcuts</h2>
        <button type="button" class="button icon-button" onClick={() => (helpOpen.value = false)}>
          <Icon name="close" />
          <span class="unseen">Close</span>
        </button>
      </div>
      <KeyList keys={KEYS} />
      <h3>On the Debugger page</h3>
      <KeyList keys={DEBUGGER_KEYS} />
      <p class="faint">In a chart: drag to zoom, double-click to show all steps, Shift-drag to pan.</p>
    </dialog>
  );
}

function KeyList({ keys: all }: { readonly keys: typeof KEYS }): JSX.Element {
  return (
    <dl class="help-keys">
      {all.map(([keys, what]) => (
        <div key={keys}>
          <dt>
            <kbd>{keys}</kbd>
          </dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
  );
}
