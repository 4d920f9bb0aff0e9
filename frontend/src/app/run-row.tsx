import { untracked } from "@preact/signals";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { categorical, PALETTE_NAMES } from "../lib/colour";
import { pausedWords } from "../lib/debugger-words";
import { formatAge } from "../lib/elapsed";
import { formatCount, formatNumber } from "../lib/format";
import { endedWords, endingInShort, lateWords } from "../lib/pulse";
import type { RunRow } from "../wire/types";
import { now } from "./clock";
import { pausedIn, pausedRuns } from "./debugger";
import { Icon } from "./icons";
import { RunName } from "./run-name";
import {
  chosen,
  clockLead,
  colourChoices,
  colourIndex,
  colourOf,
  drawerOpen,
  focus,
  focusRun,
  theme,
  toggleChosen,
} from "./state";

const STATE_WORDS: Readonly<Record<RunRow["state"], string>> = {
  live: "running",
  idle: "nothing written recently",
  ended: "ended",
  unknown: "state not known yet",
};

/** For the pointer: what the dot and the few words of a row mean. */
function stateWords(run: RunRow): string {
  const held = pausedRuns.value.has(run.name) ? untracked(() => pausedIn(run.name)) : undefined;
  if (held) return pausedWords(held.state, now.peek());
  if (run.late) return lateWords(run.late, now.peek(), run.ranks ?? 1, []);
  return run.ending ? endedWords(run.ending, run.ranks ?? 1) : STATE_WORDS[run.state];
}

function dotClass({ name, state, late, ending }: RunRow): string {
  if (pausedRuns.value.has(name)) return "state-paused";
  if (late) return "state-late";
  return state === "ended" && ending && !ending.well ? "state-failed" : `state-${state}`;
}

export function RunListRow({ run }: { readonly run: RunRow }): JSX.Element {
  const drawn = chosen.value.includes(run.name);
  const focused = focus.value === run.name;
  return (
    <div class={`run ${focused ? "focused" : ""} ${drawn ? "drawn" : ""}`}>
      <label class="run-check" title={drawn ? "Drawn in the charts" : "Draw in the charts"}>
        <input type="checkbox" checked={drawn} onChange={() => toggleChosen(run.name)} />
        <span class="run-box" style={drawn ? { background: colourOf(run.name), borderColor: colourOf(run.name) } : {}}>
          {drawn && <Icon name="check" />}
        </span>
        <span class="unseen">Draw {run.name.slice(0, 200)}</span>
      </label>
      <button
        type="button"
        class="run-main"
        aria-current={focused ? "true" : undefined}
        title={`${run.name.slice(0, 500)}\n${stateWords(run)}`}
        onClick={() => {
          focusRun(run.name);
          drawerOpen.value = false;
        }}
      >
        <span class="run-title">
          <RunName name={run.name} />
          <Verdict run={run} />
        </span>
        <span class="run-facts">
          <span class={`state-dot ${dotClass(run)}`} />
          <RunFacts run={run} />
        </span>
      </button>
      {drawn && <ColourChoice name={run.name} />}
    </div>
  );
}

const VERDICTS = {
  sick: ["error", "bad", "This network is sick"],
  suspect: ["warning", "warning", "Something may be wrong"],
  healthy: ["check", "good", "No sign of trouble"],
  unknown: ["unknown", "muted", "Nothing is known about this run"],
  "not judged": ["info", "muted", "This run is not judged yet"],
} as const;

function Verdict({ run: { verdict, reason, version } }: { readonly run: RunRow }): JSX.Element | null {
  if (version === null) return null;
  const word = verdict ?? "not judged";
  const [icon, tone, sentence] = VERDICTS[word];
  return (
    <span class={`run-verdict ${tone}`} title={reason?.replaceAll("`", "") ?? sentence}>
      <Icon name={icon} />
      <span class="unseen">{word}</span>
    </span>
  );
}

function RunFacts({ run }: { readonly run: RunRow }): JSX.Element {
  if (run.complaint) return <span class="bad">{run.complaint}</span>;
  const when = <When run={run} />;
  if (run.version === null) return when;
  return (
    <>
      {when}
      {run.last_step !== null && <span>step {formatCount(run.last_step)}</span>}
      {run.loss !== null && (
        <span class={Number.isFinite(run.loss) ? "" : "bad"}>loss {formatNumber(run.loss, 3)}</span>
      )}
    </>
  );
}

/** When something came last, or what one has to know more urgently. */
function When({ run }: { readonly run: RunRow }): JSX.Element {
  if (pausedRuns.value.has(run.name)) return <span class="warning">paused</span>;
  if (run.late) return <span class="warning">no data for {formatAge(now.value - run.late.since)}</span>;
  if (run.ending && !run.ending.well) return <span class="bad">{endingInShort(run.ending)}</span>;
  if (run.state === "live") return <span>live</span>;
  return <span>{formatAge(Date.now() / 1000 - clockLead.value - run.changed)} ago</span>;
}

function ColourChoice({ name }: { readonly name: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const choose = (index: number): void => {
    colourChoices.value = { ...colourChoices.peek(), [name]: index };
    setOpen(false);
  };
  const leave = (event: FocusEvent): void => {
    if (!place.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
  };
  return (
    <div class="colour-choice" ref={place} onFocusOut={leave}>
      <button
        type="button"
        class="colour-button"
        title="Choose a colour"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        style={{ background: colourOf(name) }}
      >
        <span class="unseen">Colour of {name.slice(0, 200)}</span>
      </button>
      {open && (
        <div class="colour-menu" role="listbox" aria-label="Colours">
          {categorical(theme.value).map((colour, index) => (
            <button
              key={colour}
              type="button"
              role="option"
              class="colour-option"
              aria-selected={index === colourIndex(name)}
              title={PALETTE_NAMES[index]}
              style={{ background: colour }}
              onClick={() => choose(index)}
            />
          ))}
        </div>
      )}
    </div>
  );
}
