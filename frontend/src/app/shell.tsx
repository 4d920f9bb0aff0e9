import type { JSX } from "preact";
import { VIEWS } from "../views/registry";
import { chosenRuns, focusedRun, page, PAGES } from "./state";

export function Shell(): JSX.Element {
  const { View } = VIEWS[page.value];
  return (
    <div class="shell">
      <nav>
        {PAGES.map((name) => (
          <button key={name} type="button" onClick={() => (page.value = name)}>
            {VIEWS[name].title}
          </button>
        ))}
      </nav>
      <main>
        <View runs={chosenRuns.value} run={focusedRun.value} />
      </main>
    </div>
  );
}
