import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { pausedWords } from "../lib/debugger-words";
import { formatAge } from "../lib/elapsed";
import { endedWords, lateWords } from "../lib/pulse";
import { connection } from "../wire/live";
import { now } from "./clock";
import { pausedIn, pausedRuns } from "./debugger";
import { Icon } from "./icons";
import { chosenRuns, focusedRun, listError, paused } from "./state";

export interface LiveState {
  readonly tone: "live" | "paused" | "lost" | "calm";
  readonly text: string;
  readonly explanation: string;
}

const liveState = computed((): LiveState => {
  const drawn = focusedRun.value ? [focusedRun.value, ...chosenRuns.value] : chosenRuns.value;
  const newest = Math.max(...drawn.map((run) => run.changed));
  const age = now.value - newest;
  const training = drawn.some((run) => run.state === "live");
  if (paused.value) {
    return {
      tone: "paused",
      text: "Paused",
      explanation: "Charts are frozen; recording continues. Press Space to resume.",
    };
  }
  if (connection.value === "lost") {
    return {
      tone: "lost",
      text: "Reconnecting",
      explanation: "TensorBoard is not responding; the page may be out of date.",
    };
  }
  if (connection.value !== "open") return { tone: "calm", text: "Connecting", explanation: "Waiting for TensorBoard." };
  if (listError.value) return { tone: "lost", text: "No response", explanation: listError.value };
  if (drawn.length === 0) return { tone: "calm", text: "Waiting", explanation: "New runs appear automatically." };
  const run = focusedRun.value;
  const held = run && pausedRuns.value.has(run.name) ? pausedIn(run.name) : undefined;
  if (held) return { tone: "paused", text: "Run paused", explanation: pausedWords(held.state, now.value) };
  if (run?.late) {
    const text = `No data for ${formatAge(now.value - run.late.since)}`;
    return { tone: "lost", text, explanation: lateWords(run.late, now.value, run.ranks ?? 1, []) };
  }
  if (training && age < 12)
    return { tone: "live", text: "Live", explanation: "New steps appear as they are recorded." };
  if (run?.state === "ended") {
    const how = run.ending ? `${endedWords(run.ending, run.ranks ?? 1)}.` : "The run has ended.";
    return {
      tone: run.ending?.well === false ? "lost" : "calm",
      text: `Ended ${formatAge(now.value - (run.ending?.time ?? run.changed))} ago`,
      explanation: `${how} New runs appear automatically.`,
    };
  }
  return {
    tone: "calm",
    text: `Data is ${formatAge(age)} old`,
    explanation: "Nothing has been written since; new steps appear automatically.",
  };
});

/** Says how fresh the picture is, and stops or continues it. */
export function LiveIndicator(): JSX.Element {
  const { tone, text, explanation } = liveState.value;
  return (
    <div class="live">
      <span class={`live-text tone-${tone}`} title={explanation} role="status">
        <span class="live-dot" />
        {text}
      </span>
      <button
        type="button"
        class="button icon-button"
        aria-pressed={paused.value}
        title={paused.value ? "Resume live updates (Space)" : "Pause live updates (Space)"}
        onClick={() => (paused.value = !paused.value)}
      >
        <Icon name={paused.value ? "play" : "pause"} />
        <span class="unseen">{paused.value ? "Resume" : "Pause"}</span>
      </button>
    </div>
  );
}
