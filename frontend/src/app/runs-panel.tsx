import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { searchFor } from "../lib/search";
import { sortRuns } from "../lib/sort-runs";
import { Icon } from "./icons";
import { RunListRow } from "./run-row";
import { chosen, chosenByUser, complaints, drawerOpen, focus, listComplete, runs, search, sort, SORTS } from "./state";
import { VirtualList } from "./virtual-list";

const ROW_HEIGHT = 48;
const SORT_TITLES = { newest: "Newest first", name: "By name", loss: "Lowest loss", steps: "Most steps" } as const;

const finder = computed(() => searchFor(search.value));
const listed = computed(() =>
  sortRuns(
    (runs.value ?? []).filter((run) => finder.value.matches(run.name)),
    sort.value,
  ),
);

/** The list of runs beside the page; on a phone a drawer over it. */
export function RunsPanel(): JSX.Element {
  return (
    <aside class={`runs-panel ${drawerOpen.value ? "open" : ""}`} aria-label="Runs">
      <div class="runs-head">
        <h2>
          Runs{" "}
          {runs.value && (
            <span class="faint">
              {chosen.value.length} of {runs.value.length} drawn
            </span>
          )}
        </h2>
        <button type="button" class="button icon-button only-phone" onClick={() => (drawerOpen.value = false)}>
          <Icon name="close" />
          <span class="unseen">Close</span>
        </button>
      </div>
      <SearchBox />
      {(runs.value?.length ?? 0) > 0 && <ListTools />}
      <ListBody />
    </aside>
  );
}

function SearchBox(): JSX.Element {
  const { complaint } = finder.value;
  return (
    <div class="search">
      <Icon name="search" />
      <input
        id="search"
        type="search"
        placeholder="Search, or /regex/"
        aria-label="Search runs by name or /regular expression/"
        aria-invalid={complaint !== null}
        spellcheck={false}
        value={search.value}
        onInput={(event) => (search.value = event.currentTarget.value)}
      />
      {complaint && <p class="search-complaint">{complaint}</p>}
    </div>
  );
}

function ListTools(): JSX.Element {
  const setChosen = (names: readonly string[]): void => {
    chosenByUser.value = true;
    chosen.value = names;
  };
  const searching = search.value.trim() !== "";
  return (
    <div class="list-tools">
      <select
        aria-label="Sort runs"
        value={sort.value}
        onChange={(event) => (sort.value = SORTS.find((each) => each === event.currentTarget.value) ?? "newest")}
      >
        {SORTS.map((each) => (
          <option key={each} value={each}>
            {SORT_TITLES[each]}
          </option>
        ))}
      </select>
      <span class="grow" />
      <button type="button" class="link" onClick={() => setChosen(listed.value.slice(0, 20).map((run) => run.name))}>
        {searching ? "Draw matches" : listed.value.length > 20 ? "Draw 20" : "Draw all"}
      </button>
      <button type="button" class="link" onClick={() => setChosen([])}>
        None
      </button>
    </div>
  );
}

function ListBody(): JSX.Element {
  if (runs.value === null) return <p class="hint">Looking for runs …</p>;
  if (listed.value.length === 0) {
    if (runs.value.length > 0) return <p class="hint">No runs match.</p>;
    return <p class="hint">{listComplete.value ? "No runs yet." : "Still looking for runs …"}</p>;
  }
  return (
    <>
      <VirtualList
        items={listed.value}
        rowHeight={ROW_HEIGHT}
        keyOf={(run) => run.name}
        row={(run) => <RunListRow run={run} />}
        label="Runs"
        current={listed.value.findIndex((run) => run.name === focus.value)}
      />
      {complaints.value.length > 0 && (
        <ul class="list-complaints">
          {complaints.value.map((complaint) => (
            <li key={complaint}>{complaint}</li>
          ))}
        </ul>
      )}
    </>
  );
}
