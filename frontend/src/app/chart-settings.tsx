import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { formatShort } from "../lib/format";
import type { RunDetails } from "../wire/types";
import { Icon } from "./icons";
import { VIEWS } from "../views/registry";
import { axis, logY, page, range, rank, smoothing, type Axis } from "./state";

const AXIS_TITLES: readonly (readonly [Axis, string])[] = [
  ["step", "Steps"],
  ["time", "Time"],
  ["samples", "Samples"],
];

/** On a phone the less used settings are folded away. */
const open = signal(false);

/** How curves are drawn: the same on all pages. */
export function ChartSettings({ details }: { readonly details: RunDetails | null }): JSX.Element {
  return (
    <div class="settings" role="group" aria-label="Chart settings">
      {VIEWS[page.value].curves && <CurveSettings />}
      <RankChoice details={details} />
      {range.value && (
        <button type="button" class="button" title="Show all steps (R)" onClick={() => (range.value = null)}>
          <Icon name="reset" />
          Steps {formatShort(range.value.first)} – {formatShort(range.value.last)}
        </button>
      )}
    </div>
  );
}

function CurveSettings(): JSX.Element {
  return (
    <>
      <div class="segments" role="group" aria-label="Horizontal axis">
        {AXIS_TITLES.map(([value, title]) => (
          <button
            key={value}
            type="button"
            class="segment"
            aria-pressed={axis.value === value}
            onClick={() => (axis.value = value)}
          >
            {title}
          </button>
        ))}
      </div>
      <button
        type="button"
        class="button icon-button only-phone"
        aria-expanded={open.value}
        title="More settings"
        onClick={() => (open.value = !open.value)}
      >
        <Icon name="sliders" />
        <span class="unseen">More settings</span>
      </button>
      <div class={`more-settings ${open.value ? "open" : ""}`}>
        <label class="setting">
          Smoothing
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={smoothing.value}
            onInput={(event) => (smoothing.value = Number(event.currentTarget.value))}
          />
          <output>{smoothing.value.toFixed(2)}</output>
        </label>
        <label class="setting">
          <input type="checkbox" checked={logY.value} onChange={() => (logY.value = !logY.value)} />
          Log y
        </label>
      </div>
    </>
  );
}

function RankChoice({ details }: { readonly details: RunDetails | null }): JSX.Element | null {
  const ranks = details?.rank_list ?? [];
  if (ranks.length < 2 && rank.value === 0) return null;
  return (
    <label class="setting">
      Rank
      <select value={rank.value} onChange={(event) => (rank.value = Number(event.currentTarget.value))}>
        {[...new Set([...ranks, rank.value])].map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}
