import "./overview.css";
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import type { ViewProps } from "../../app/view";
import { axis, focus } from "../../app/state";
import type { Marker } from "../../charts/line-chart";
import { findingTree } from "../../lib/finding-tree";
import { groupScalars, PROBES, titleOf } from "../../lib/scalars";
import { searchFor } from "../../lib/search";
import { useRun } from "../../wire/client";
import type { RunDetails, RunRow } from "../../wire/types";
import { Findings, LOSS_CHART } from "./findings";
import { Pulse } from "./pulse";
import { Gaps, RunSummary } from "./run-summary";
import { ScalarChart } from "./scalar-chart";
import { VITAL_NAMES, Vitals } from "./vitals";
import { useWholeRuns, type WholeRuns } from "./whole-runs";

const LOSS_HEIGHT = 300;
const SMALL_HEIGHT = 168;
/** With fewer charts than that one sees them all at once. */
const SEARCH_FROM = 10;
const filter = signal("");

export function OverviewView({ runs, run }: ViewProps): JSX.Element | null {
  return run && <Overview key={run.name} runs={runs.length > 0 ? runs : [run]} run={run} />;
}

function Overview({ runs, run }: { readonly runs: readonly RunRow[]; readonly run: RunRow }): JSX.Element {
  const details = useRun(run.name);
  const { whole } = useWholeRuns(runs, run, VITAL_NAMES);
  return (
    <div class="overview">
      {details && <RunSummary run={run} details={details} />}
      {details && <Pulse run={run} details={details} />}
      {details && <Findings details={details} />}
      {details && <Gaps details={details} />}
      <Vitals run={run} details={details} whole={whole.get(run.name)} />
      <div id={LOSS_CHART}>
        <ScalarChart
          name="loss"
          runs={runs}
          whole={whole}
          height={LOSS_HEIGHT}
          points={1000}
          legend
          markers={details ? markersOf(details) : []}
        />
      </div>
      {details && <Groups names={details.scalars.filter((name) => name !== "loss")} runs={runs} whole={whole} />}
    </div>
  );
}

/** Causes on the curve, where they began. Their places are steps, so on other axes they are left out. */
function markersOf(details: RunDetails): Marker[] {
  if (axis.value !== "step" || focus.value !== details.name) return [];
  const tones = { error: "bad", warning: "warning", info: "info" } as const;
  return findingTree(details.findings)
    .causes.filter((finding) => finding.severity !== "info")
    .map((finding) => ({ x: finding.first_step, label: finding.rule, tone: tones[finding.severity] }));
}

interface GroupsProps {
  readonly names: readonly string[];
  readonly runs: readonly RunRow[];
  readonly whole: WholeRuns;
}

function Groups({ names, runs, whole }: GroupsProps): JSX.Element {
  const finder = searchFor(filter.value);
  const groups = groupScalars(names.filter((name) => finder.matches(name) || finder.matches(titleOf(name))));
  return (
    <section class="groups" aria-label="All scalars">
      {names.length >= SEARCH_FROM && (
        <input
          type="search"
          class="group-filter"
          placeholder="Filter charts"
          aria-label="Filter charts by name or /regular expression/"
          value={filter.value}
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
      )}
      {groups.map((group) => (
        <details key={group.title} class="group" open={group.title !== PROBES || filter.value !== ""}>
          <summary>
            <h3>{group.title}</h3> <span class="faint">{group.names.length}</span>
          </summary>
          <div class="chart-grid">
            {group.names.map((name) => (
              <ScalarChart key={name} name={name} runs={runs} whole={whole} height={SMALL_HEIGHT} points={500} />
            ))}
          </div>
        </details>
      ))}
      {groups.length === 0 && names.length > 0 && <p class="hint">No charts match.</p>}
    </section>
  );
}
