import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { choose, entry, lastSeen, sessions, sessionsError, trainings } from "../../app/debugger";
import { formatCount } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import type { DebuggerEntry } from "../../wire/debugger-types";
import { Segments } from "../layers/segments";
import { Arm } from "./arm";
import { BatchPanel } from "./batch-panel";
import { BreaksPanel } from "./breaks-panel";
import { chosenTensor, middle, openTab, pane, panelTab, shownMiddle, TABS, type PanelTab } from "./choices";
import { Code } from "./code";
import { ControlBar } from "./controls";
import { EvaluatePanel } from "./evaluate-panel";
import { Head, trainingWords } from "./head";
import { HitsPanel } from "./hits-panel";
import { Inspector } from "./inspector";
import { ModuleList, useModules } from "./module-list";
import { OptimizerPanel } from "./optimizer-panel";
import { TensorsPanel } from "./tensors-panel";
import { WatchPanel } from "./watch-panel";
import "../layers/layers.css";
import "../histograms/histograms.css";
import "./debugger.css";
import "./panels.css";

/** Pauses a training, steps it, and looks inside. */
export function DebuggerView(): JSX.Element {
  const shown = entry.value;
  if (sessions.value === null) return <p class="hint">{sessionsError.value ?? "Looking for runs …"}</p>;
  if (!shown) return sessions.value.length === 0 && !lastSeen.value ? <Arm /> : <Gone />;
  return <Workplace key={shown.key} shown={shown} />;
}

/** The training of the link, or the one that was looked at, is not there any more. */
function Gone(): JSX.Element {
  const last = lastSeen.value;
  const what = last ? shownName(last.session.run || last.session.program) : "in this link";
  return (
    <section class="notice" role="status">
      <h2>The run {what} is no longer here</h2>
      <p>
        It has ended, or has been silent for a long time.
        {last && ` It was last seen in batch ${formatCount(last.state.step)}.`} If it comes back, it appears here
        automatically.
      </p>
      {trainings.value.map((each) => (
        <button key={each.group} type="button" class="button" onClick={() => choose(each.ranks[0]?.key ?? "")}>
          {trainingWords(each)}
        </button>
      ))}
    </section>
  );
}

function Workplace({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const modules = useModules();
  return (
    <div class={`debugger pane-${pane.value}`}>
      <Head shown={shown} />
      <ControlBar shown={shown} />
      <div class="only-phone debug-panes">
        <Segments
          options={[
            { value: "layers", label: "Layers" },
            { value: "code", label: "Code" },
            { value: "data", label: "Data" },
          ]}
          value={pane.value}
          onChange={(next) => (pane.value = next)}
          label="Pane"
        />
      </div>
      <ModuleList shown={shown} modules={modules} />
      <Centre shown={shown} />
      <Panels shown={shown} />
    </div>
  );
}

function Centre({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const tensor = chosenTensor();
  const isTensor = tensor !== null && shownMiddle() === "tensor";
  return (
    <section class="card debug-pane debug-centre" aria-label="Code and tensor">
      {tensor !== null && (
        <div class="debug-pane-head">
          <Segments
            options={[
              { value: "code", label: "Code" },
              { value: "tensor", label: "Tensor" },
            ]}
            value={shownMiddle()}
            onChange={(next) => (middle.value = next)}
            label="Centre pane"
          />
        </div>
      )}
      {isTensor ? <Inspector shown={shown} name={tensor} /> : <Code shown={shown} />}
    </section>
  );
}

const TITLES: Readonly<Record<PanelTab, string>> = {
  tensors: "Tensors",
  watch: "Watch",
  breaks: "Breaks",
  hits: "Hits",
  batch: "Batch",
  optimizer: "Rates",
  evaluate: "Evaluate",
};

function Panels({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const tab = panelTab();
  const { state } = shown;
  // The list asks by itself, and is not drawn anew with each step.
  const tensors = useMemo(() => <TensorsPanel />, []);
  const counts: Partial<Record<PanelTab, number>> = {
    watch: state.watchpoints.length,
    breaks: state.breakpoints.length,
    hits: state.hits,
  };
  return (
    <section class="card debug-pane debug-data" aria-label="Data">
      <div class="debug-tabs" role="tablist" aria-label="Run data">
        {TABS.map((each) => (
          <button
            key={each}
            type="button"
            role="tab"
            class="debug-tab"
            aria-selected={each === tab}
            onClick={() => openTab(each)}
          >
            {TITLES[each]}
            {(counts[each] ?? 0) > 0 && <span class="debug-badge">{counts[each]}</span>}
          </button>
        ))}
      </div>
      <div class="debug-panel" role="tabpanel" aria-label={TITLES[tab]}>
        {tab === "tensors" ? tensors : <Panel tab={tab} shown={shown} />}
      </div>
    </section>
  );
}

function Panel({ tab, shown }: { readonly tab: PanelTab; readonly shown: DebuggerEntry }): JSX.Element {
  if (tab === "watch") return <WatchPanel shown={shown} />;
  if (tab === "breaks") return <BreaksPanel shown={shown} />;
  if (tab === "hits") return <HitsPanel shown={shown} />;
  if (tab === "batch") return <BatchPanel shown={shown} />;
  if (tab === "optimizer") return <OptimizerPanel shown={shown} />;
  return <EvaluatePanel shown={shown} />;
}
