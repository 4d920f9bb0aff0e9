import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { onSize } from "../charts/canvas";
import { VIEWS } from "../views/registry";
import { anyPaused } from "./debugger";
import { Icon } from "./icons";
import { LiveIndicator } from "./live-indicator";
import { RunName } from "./run-name";
import { drawerOpen, focusedRun, helpOpen, page, PAGES } from "./state";

export function TopBar(): JSX.Element {
  const tabs = useRef<HTMLElement>(null);
  useEffect(() => (tabs.current ? onSize(tabs.current, () => reveal(openTab(tabs.current))) : undefined), []);
  return (
    <header class="top-bar">
      {page.value !== "debugger" && (
        <>
          <button type="button" class="button icon-button only-phone" onClick={() => (drawerOpen.value = true)}>
            <Icon name="menu" />
            <span class="unseen">Runs</span>
          </button>
          <span class="top-run only-phone">{focusedRun.value && <RunName name={focusedRun.value.name} />}</span>
        </>
      )}
      <h1 class="brand">
        <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
          <path d="M1 11h4l2.5-7 4 12 2.5-5h5" />
        </svg>
        NetDebug
      </h1>
      <nav class="tabs" aria-label="Pages" ref={tabs}>
        {PAGES.map((name, index) => (
          <a
            key={name}
            href={`#${name}`}
            class="tab"
            aria-current={page.value === name ? "page" : undefined}
            ref={(tab) => {
              if (page.value === name) reveal(tab);
            }}
            title={`${VIEWS[name].title} (${index + 1})`}
            onClick={(event) => {
              event.preventDefault();
              page.value = name;
            }}
          >
            {VIEWS[name].title}
            {name === "debugger" && anyPaused.value && <PausedMark />}
          </a>
        ))}
      </nav>
      {/* It tells of runs, and its pause is that of the picture; the debugger has a status of its own. */}
      {page.value !== "debugger" && <LiveIndicator />}
      <button
        type="button"
        class="button icon-button not-phone"
        title="Keyboard shortcuts (?)"
        onClick={() => (helpOpen.value = true)}
      >
        <Icon name="help" />
        <span class="unseen">Keyboard shortcuts</span>
      </button>
    </header>
  );
}

/** Someone's training stands still: that is to be seen from every page. */
function PausedMark(): JSX.Element {
  return (
    <span class="tab-paused" title="A run is paused">
      <Icon name="pause" />
      <span class="unseen">a run is paused</span>
    </span>
  );
}

function openTab(tabs: HTMLElement | null): HTMLElement | null {
  return tabs?.querySelector<HTMLElement>("[aria-current=page]") ?? null;
}

/** On a phone there is no room for all tabs. */
function reveal(tab: HTMLElement | null): void {
  tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
}
