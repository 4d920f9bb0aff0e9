import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { choose, entry, isHolder, training, trainings } from "../../app/debugger";
import { attendAgain, detached, HOLD_MINUTES, letGoAt, takeControls } from "../../app/debugger-attendance";
import { label, shownLabel } from "../../app/debugger-client";
import { Icon } from "../../app/icons";
import { isPaused, type Training } from "../../lib/debugger-trainings";
import { formatCount } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { needsToken } from "../../wire/control";
import type { DebuggerEntry } from "../../wire/debugger-types";
import { TokenField } from "./token-field";
import { TypedField } from "./typed-field";

/** Which training is looked at, and who holds its controls. */
export function Head({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  return (
    <header class="debug-head">
      <Picker shown={shown} />
      <span class="grow" />
      {needsToken.value ? <TokenField /> : <Controls shown={shown} />}
    </header>
  );
}

function Picker({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const ranks = training.value?.ranks ?? [];
  return (
    <div class="debug-picker">
      <label class="setting">
        Run
        <select
          value={training.value?.group ?? ""}
          onChange={(event) => chooseGroup(event.currentTarget.value)}
          title={`${shown.session.program}, process ${shown.session.pid} on ${shown.session.host}`}
        >
          {trainings.value.map((each) => (
            <option key={each.group} value={each.group}>
              {trainingWords(each)}
            </option>
          ))}
        </select>
      </label>
      {ranks.length > 1 && (
        <label class="setting">
          Rank
          <select value={shown.key} onChange={(event) => choose(event.currentTarget.value)}>
            {ranks.map((each) => (
              <option key={each.key} value={each.key}>
                {each.session.rank}
                {each.is_connected ? "" : ", connection lost"}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

function chooseGroup(group: string): void {
  const [first] = trainings.peek().find((each) => each.group === group)?.ranks ?? [];
  if (first) choose(first.key);
}

/** What an option says: a line of text, which browsers allow no more than. */
export function trainingWords({ ranks }: Training): string {
  const [first] = ranks;
  if (!first) return "";
  const { session, state } = first;
  const many = session.world_size > 1 ? `, ${session.world_size} ranks` : "";
  const status = !first.is_connected ? "connection lost" : ranks.some(isPaused) ? "paused" : state.status;
  return `${shownName(session.run || session.program)}${many}: ${status}, batch ${formatCount(state.step)}`;
}

function Controls({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const naming = useSignal(false);
  if (detached.value.has(training.value?.group ?? "")) {
    return (
      <div class="debug-holder">
        <span class="muted">Detached: breakpoints and watchpoints are off.</span>
        <button type="button" class="button" onClick={() => attendAgain(shown.key)}>
          Attach
        </button>
      </div>
    );
  }
  return (
    <div class="debug-holder">
      <span role="status">{holderWords(shown)}</span>
      {shown.holder && !isHolder.value && (
        <button type="button" class="button" onClick={() => void takeControls(shown.key)}>
          Take over
        </button>
      )}
      {naming.value ? (
        <NameField done={() => (naming.value = false)} />
      ) : (
        <button
          type="button"
          class="link"
          title="Change the name that others see"
          onClick={() => (naming.value = true)}
        >
          You are “{shownName(shownLabel())}”
        </button>
      )}
    </div>
  );
}

function holderWords({ holder, clients }: DebuggerEntry): string {
  const others = clients > 1 ? ` ${clients} pages are attached.` : "";
  if (isHolder.value) return `You hold the controls.${others}`;
  if (holder) return `${shownName(holder.label || "Another page")} holds the controls.${others}`;
  return `Nobody holds the controls.${others}`;
}

function NameField({ done }: { readonly done: () => void }): JSX.Element {
  return (
    <TypedField
      class="debug-name"
      maxLength={40}
      label="Your name, as others see it"
      placeholder={shownLabel()}
      value={label.value}
      autoFocus
      onChange={(typed) => {
        label.value = typed;
      }}
      onLeave={done}
    />
  );
}

/** What keeps a paused training paused: nobody should wonder why it went on, or why it does not. */
export function HoldNote({ shown }: { readonly shown: DebuggerEntry }): JSX.Element | null {
  if (letGoAt.value !== null) {
    const at = new Date(letGoAt.value).toLocaleTimeString();
    return (
      <p class="debug-note">
        <Icon name="info" /> This page detached at {at}, after {HOLD_MINUTES} minutes out of sight.
        <button type="button" class="link" onClick={() => (letGoAt.value = null)}>
          OK
        </button>
      </p>
    );
  }
  if (!isPaused(shown) || entry.value?.key !== shown.key) return null;
  const secs = Math.round(shown.state.lease_secs) || 15;
  return (
    <p class="debug-hold faint">
      The run stays paused while {shown.clients > 1 ? "a page is attached" : "this page is open"}. It continues{" "}
      {`${secs}\u00a0s`} after {shown.clients > 1 ? "the last page" : "the page"} is closed, or has been out of sight
      for {HOLD_MINUTES} minutes.
    </p>
  );
}
