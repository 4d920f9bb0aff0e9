import type { JSX } from "preact";
import { now } from "../../app/clock";
import { choose, pausedIn, pausedRuns } from "../../app/debugger";
import { Icon } from "../../app/icons";
import { page } from "../../app/state";
import { pausedWords } from "../../lib/debugger-words";
import { formatAge } from "../../lib/elapsed";
import { endedWords, lateWords } from "../../lib/pulse";
import type { DebuggerEntry } from "../../wire/debugger-types";
import type { Ending, RunDetails, RunRow } from "../../wire/types";

const MOST_ENDINGS = 4;

/** What one has to know before all charts: the training was killed, or nothing comes any more. */
export function Pulse({ run, details }: { readonly run: RunRow; readonly details: RunDetails }): JSX.Element | null {
  const bad = details.endings.filter((ending) => !ending.well);
  const held = pausedRuns.value.has(run.name) ? pausedIn(run.name) : undefined;
  if (!held && !run.late && bad.length === 0) return null;
  return (
    <section class="pulse" aria-label="Run state">
      {held ? <PausedNote held={held} /> : <LateNote run={run} details={details} />}
      {bad.slice(0, MOST_ENDINGS).map((ending) => (
        <EndingNote key={ending.rank} ending={ending} ranks={run.ranks ?? 1} />
      ))}
      {bad.length > MOST_ENDINGS && <p class="muted">and {bad.length - MOST_ENDINGS} more ranks</p>}
    </section>
  );
}

function PausedNote({ held }: { readonly held: DebuggerEntry }): JSX.Element {
  const open = (): void => {
    choose(held.key);
    page.value = "debugger";
  };
  return (
    <div class="card pulse-note pulse-warning" role="status">
      <Icon name="pause" />
      <p>
        {pausedWords(held.state, now.value)}{" "}
        <button type="button" class="link" onClick={open}>
          Open the Debugger
        </button>
      </p>
    </div>
  );
}

function LateNote({ run, details }: { readonly run: RunRow; readonly details: RunDetails }): JSX.Element | null {
  if (!run.late) return null;
  return (
    <div class={`card pulse-note pulse-${run.late.is_alive ? "warning" : "bad"}`} role="status">
      <Icon name={run.late.is_alive ? "warning" : "error"} />
      <p>{lateWords(run.late, now.value, run.ranks ?? 1, details.processes)}</p>
    </div>
  );
}

function EndingNote({ ending, ranks }: { readonly ending: Ending; readonly ranks: number }): JSX.Element {
  return (
    <div class="card pulse-note pulse-bad">
      <Icon name="error" />
      <p>
        <strong>{endedWords(ending, ranks)}</strong>
        <span class="muted"> {formatAge(now.value - ending.time)} ago. </span>
        <bdi>{ending.sentence}</bdi>
      </p>
    </div>
  );
}
