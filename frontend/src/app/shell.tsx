import type { JSX } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { useRun } from "../wire/client";
import { VIEWS } from "../views/registry";
import { ChartSettings } from "./chart-settings";
import { Help } from "./help";
import { Icon } from "./icons";
import { NoRunChosen, NoRuns, Unreachable } from "./notices";
import { RunName } from "./run-name";
import { RunsPanel } from "./runs-panel";
import { chosenRuns, drawerOpen, focusedRun, listComplete, listError, page, runs, type PageName } from "./state";
import { TopBar } from "./top-bar";

/** Everything: the bar, the list of runs and the page. */
export function Shell(): JSX.Element {
  return (
    <div class={`shell ${page.value === "debugger" ? "shell-wide" : ""}`}>
      <TopBar />
      <RunsPanel />
      {drawerOpen.value && <div class="drawer-back" onClick={() => (drawerOpen.value = false)} />}
      <main class="main">
        <Body />
      </main>
      <Help />
    </div>
  );
}

function Body(): JSX.Element {
  // A training can be paused that has no run here.
  if (page.value === "debugger") return <PageBody key="debugger" name="debugger" />;
  if (runs.value === null) return listError.value ? <Unreachable /> : <p class="hint">Looking for runs …</p>;
  if (runs.value.length === 0) return listComplete.value ? <NoRuns /> : <p class="hint">Still looking for runs …</p>;
  if (!focusedRun.value) return <NoRunChosen />;
  return (
    <>
      <PageHead />
      <PageBody key={page.value} name={page.value} />
    </>
  );
}

function PageHead(): JSX.Element {
  const run = focusedRun.value;
  const details = useRun(run?.name ?? null);
  return (
    <div class="page-head">
      <h2 class="page-run">{run && <RunName name={run.name} />}</h2>
      <ChartSettings details={details} />
    </div>
  );
}

/** One broken page leaves the others alone. */
function PageBody({ name }: { readonly name: PageName }): JSX.Element {
  const [error, retry] = useErrorBoundary((found) => console.error(found));
  const { View, title } = VIEWS[name];
  if (error) {
    return (
      <section class="notice" role="alert">
        <h2>The {title} page cannot be shown</h2>
        <p>{error instanceof Error ? error.message : String(error)}</p>
        <button type="button" class="button" onClick={retry}>
          <Icon name="reset" /> Try again
        </button>
      </section>
    );
  }
  return <View runs={chosenRuns.value} run={focusedRun.value} />;
}
