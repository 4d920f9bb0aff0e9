import { computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { formatAge } from "../lib/elapsed";
import { connection, hidden } from "../wire/live";
import { Icon } from "./icons";
import { chosenRuns, clockLead, focusedRun, listError, paused } from "./state";

const clock = signal(Date.now() / 1000);
setInterval(() => {
  if (!hidden.peek()) clock.value = Date.now() / 1000;
}, 1000);

export interface LiveState {
  readonly tone: "live" | "paused" | "lost" | "calm";
  readonly text: string;
  readonly explanation: string;
}

const liveState = computed((): LiveState => {
  const drawn = focusedRun.value ? [focusedRun.value, ...chosenRuns.value] : chosenRuns.value;
  const newest = Math.max(...drawn.map((run) => run.changed));
  const age = clock.value - clockLead.value - newest;
  const training = drawn.some((run) => run.state === "live");
  if (paused.value) {
    return {
      tone: "paused",
      text: "Paused",
      explanation: "The picture stands still; recording goes on. Space continues.",
    };
  }
  if (connection.value === "lost") {
    return { tone: "lost", text: "Reconnecting", explanation: "TensorBoard does not answer; what you see may be old." };
  }
  if (connection.value !== "open") return { tone: "calm", text: "Connecting", explanation: "Waiting for TensorBoard." };
  if (listError.value) return { tone: "lost", text: "No answer", explanation: listError.value };
  if (drawn.length === 0) return { tone: "calm", text: "Waiting", explanation: "New runs appear by themselves." };
  if (training && age < 12) return { tone: "live", text: "Live", explanation: "New steps are drawn as they come." };
  if (focusedRun.value?.state === "ended") {
    const ago = formatAge(clock.value - clockLead.value - focusedRun.value.changed);
    return {
      tone: "calm",
      text: `Ended ${ago} ago`,
      explanation: "This run was closed. New runs appear by themselves.",
    };
  }
  return {
    tone: "calm",
    text: `Data is ${formatAge(age)} old`,
    explanation: "Nothing new was written since; new steps appear by themselves.",
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
        title={paused.value ? "Continue (Space)" : "Pause the picture (Space)"}
        onClick={() => (paused.value = !paused.value)}
      >
        <Icon name={paused.value ? "play" : "pause"} />
        <span class="unseen">{paused.value ? "Continue" : "Pause"}</span>
      </button>
    </div>
  );
}
