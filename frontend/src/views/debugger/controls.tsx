import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { now } from "../../app/clock";
import { complaint, pauseOrContinue, sessionsError, steer, step, told } from "../../app/debugger";
import { letGo } from "../../app/debugger-attendance";
import { Icon } from "../../app/icons";
import { stepLabel, stepMeaning, statusWords } from "../../lib/debugger-words";
import { formatNumber, formatSeconds } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { connection } from "../../wire/live";
import { STEPS, type DebuggerEntry, type StepBy } from "../../wire/debugger-types";
import { HoldNote } from "./head";

const KEYS: Readonly<Partial<Record<StepBy, string>>> = { layer: "F10", op: "F11", batch: "Shift F11" };

/** The status in words, and everything that makes the training go on. */
export function ControlBar({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  return (
    <section class="card debug-bar" aria-label="Run controls">
      <Status shown={shown} />
      <div class="debug-buttons" role="toolbar" aria-label="Continue and step">
        <Buttons shown={shown} />
      </div>
      <Notes shown={shown} />
    </section>
  );
}

function Status({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const { tone, text, why } = statusWords(shown.state, shown.is_connected);
  return (
    <div class="debug-status">
      <p class={`debug-words debug-${tone}`} role="status" aria-live="polite">
        <span class="debug-dot" />
        <bdi>{shownName(text)}</bdi>
      </p>
      {why && <span class="muted debug-why">{shownName(why)}</span>}
      <span class="grow" />
      {shown.state.loss !== null && <span class="muted">last loss {formatNumber(shown.state.loss)}</span>}
      <Countdown at={shown.state.resumes_at} />
    </div>
  );
}

/** Other ranks wait for this one, and give up after their time-out. */
function Countdown({ at }: { readonly at: number | null }): JSX.Element | null {
  if (at === null) return null;
  const left = Math.max(0, Math.round(at - now.value));
  return (
    <span class={left < 60 ? "warning" : "muted"} title="Before the other processes stop waiting">
      continues by itself in {formatSeconds(left)}
    </span>
  );
}

function Buttons({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const { state, session, is_connected } = shown;
  const isPaused = state.status === "paused";
  const isThere = is_connected && state.status !== "over";
  return (
    <>
      <button
        type="button"
        class="button button-main"
        disabled={!isThere}
        title={`${isPaused ? "Continue" : "Pause at the next place"} (F8)`}
        onClick={pauseOrContinue}
      >
        <Icon name={isPaused ? "play" : "pause"} /> {isPaused ? "Continue" : "Pause"}
      </button>
      <span class="debug-steps" role="group" aria-label="Step to the next">
        <span class="faint">Step</span>
        {STEPS.map((by) => {
          const why = session.cannot.join(" ") || "Not available in this run.";
          const reason = session.can.includes(by) ? null : why;
          return (
            <button
              key={by}
              type="button"
              class="button"
              disabled={!isThere || !isPaused || reason !== null}
              title={reason ?? `${stepMeaning(by)}${KEYS[by] ? ` (${KEYS[by]})` : ""}`}
              onClick={() => void step(by)}
            >
              {stepLabel(by)}
            </button>
          );
        })}
      </span>
      <RunTo disabled={!isThere} />
      <span class="grow" />
      <button
        type="button"
        class="button"
        disabled={!isThere}
        title="Save this batch and the model in a capsule, to open with netdebug replay"
        onClick={() => void snapshot()}
      >
        Snapshot
      </button>
      <button
        type="button"
        class="button"
        disabled={!isThere}
        title="Let the run continue without breakpoints and watchpoints"
        onClick={() => void detach(shown.key)}
      >
        Detach
      </button>
    </>
  );
}

async function snapshot(): Promise<void> {
  const value = (await steer("snapshot")) as { path?: unknown } | undefined;
  if (typeof value?.path === "string") told.value = `Capsule written: ${value.path}`;
}

async function detach(key: string): Promise<void> {
  if ((await steer("detach")) !== undefined) await letGo(key);
}

/** A number is a batch, anything else the name of a layer. */
function RunTo({ disabled }: { readonly disabled: boolean }): JSX.Element {
  const target = useSignal("");
  const go = (event: Event): void => {
    event.preventDefault();
    const text = target.value.trim();
    if (/^\d+$/.test(text)) void steer("run_to", { step: Number(text) });
    else if (text !== "") void steer("run_to", { layer: text });
  };
  return (
    <form class="debug-run-to" onSubmit={go}>
      <input
        type="text"
        aria-label="Run to a batch, by number, or to a layer, by pattern"
        placeholder="batch or layer"
        spellcheck={false}
        disabled={disabled}
        value={target.value}
        onInput={(event) => (target.value = event.currentTarget.value)}
      />
      <button type="submit" class="button" disabled={disabled || target.value.trim() === ""}>
        Run to
      </button>
    </form>
  );
}

function Notes({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  return (
    <>
      {complaint.value && <Message text={complaint.value} close={() => (complaint.value = null)} isBad />}
      {told.value && <Message text={told.value} close={() => (told.value = null)} />}
      {shown.state.note && (
        <p class="debug-note">
          <Icon name="info" /> <span>{sentenceWords(shown.state.note)}</span>
        </p>
      )}
      {connection.value === "lost" && (
        <p class="debug-note warning" role="alert">
          <Icon name="warning" /> TensorBoard is not responding; reconnecting. {sessionsError.value}
        </p>
      )}
      {connection.value !== "lost" && sessionsError.value && (
        <p class="debug-note warning" role="alert">
          <Icon name="warning" /> {sessionsError.value}
        </p>
      )}
      <HoldNote shown={shown} />
    </>
  );
}

interface MessageProps {
  readonly text: string;
  readonly close: () => void;
  readonly isBad?: boolean;
}

function Message({ text, close, isBad = false }: MessageProps): JSX.Element {
  return (
    <p class={`debug-note ${isBad ? "bad" : ""}`} role={isBad ? "alert" : "status"}>
      <Icon name={isBad ? "warning" : "info"} /> <span>{sentenceWords(text)}</span>
      <button type="button" class="link" onClick={close}>
        Close
      </button>
    </p>
  );
}

/** Those that a training writes to its terminal go on behind its name, and begin small. */
function sentenceWords(text: string): string {
  const shown = shownName(text);
  return shown.charAt(0).toUpperCase() + shown.slice(1);
}
