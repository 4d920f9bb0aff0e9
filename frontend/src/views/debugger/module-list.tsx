import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { entry, steer } from "../../app/debugger";
import { Icon } from "../../app/icons";
import { VirtualList } from "../../app/virtual-list";
import { moduleRows, moduleTree, type ModuleRow, type ModuleTree } from "../../lib/debugger-modules";
import { exactPattern, fileName, isFound } from "../../lib/debugger-words";
import { formatShort } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { parseModules } from "../../wire/debugger-json";
import type { Breakpoint, DebuggedModule, DebuggerEntry } from "../../wire/debugger-types";
import { useAsked } from "./asked";
import { chooseModule, chosenModule, listTensorsOf } from "./choices";
import { showCode } from "./code-place";
import { type ModuleMarks, useModuleMarks } from "./marks";

const ROW_HEIGHT = 26;
const NO_MODULES: readonly DebuggedModule[] = [];
const toggled = signal<ReadonlySet<string>>(new Set());

export interface KnownModules {
  readonly tree: ModuleTree;
  readonly error: string | null;
  readonly isThere: boolean;
}

export function useModules(): KnownModules {
  const { value, error } = useAsked("modules", {}, parseModules, { once: true });
  const tree = useMemo(() => moduleTree(value ?? NO_MODULES), [value]);
  return { tree, error, isThere: value !== null };
}

interface ModuleListProps {
  readonly shown: DebuggerEntry;
  readonly modules: KnownModules;
}

/** The layers, with where the training is, what stops it, and what is ill. */
export function ModuleList({ shown, modules }: ModuleListProps): JSX.Element {
  const { tree } = modules;
  const here = placeOf(shown, tree);
  const selected = chosenModule();
  const rows = useMemo(() => moduleRows(tree, toggled.value, here), [tree, toggled.value, here]);
  const marks = useModuleMarks(shown, tree);
  const at = rows.findIndex((row) => row.module.name === here);
  const chosen = rows.findIndex((row) => row.module.name === selected);
  const box = useRef<HTMLElement>(null);
  const reveal = useNewest(at, chosen);
  useEffect(() => moveFocus(box.current), [selected]);
  return (
    <section
      class="card debug-pane debug-modules"
      aria-label="Layers"
      ref={box}
      onKeyDown={(event) => {
        if (listKey(event, rows, chosen, shown)) {
          event.preventDefault();
          event.stopPropagation();
        }
      }}
    >
      <h3 class="debug-pane-head">Layers</h3>
      {!modules.isThere && <p class="hint">{modules.error ?? "Loading the layers …"}</p>}
      <VirtualList
        items={rows}
        rowHeight={ROW_HEIGHT}
        keyOf={(row) => row.module.name}
        label="Layers"
        current={reveal}
        around={3}
        row={(row) => (
          <Row
            row={row}
            shown={shown}
            marks={marks}
            isHere={row.module.name === here && shown.state.status === "paused"}
            isSelected={row.module.name === selected}
            isFirst={chosen < 0 && row === rows[0]}
          />
        )}
      />
      {chosen >= 0 && rows[chosen] && <Actions row={rows[chosen]} shown={shown} />}
    </section>
  );
}

function placeOf({ state }: DebuggerEntry, tree: ModuleTree): string | null {
  const name = state.place?.module ?? null;
  return name !== null && tree.byName.has(name) ? name : null;
}

/** Which of the two was moved last. */
function useNewest(a: number, b: number): number {
  const last = useRef({ a, b, newest: a >= 0 ? a : b });
  if (a !== last.current.a) last.current = { a, b, newest: a };
  else if (b !== last.current.b) last.current = { a, b, newest: b };
  return last.current.newest;
}

function moveFocus(box: HTMLElement | null): void {
  if (!box?.contains(document.activeElement)) return;
  box.querySelector<HTMLElement>('.debug-module-name[tabindex="0"]')?.focus({ preventScroll: true });
}

interface RowProps {
  readonly row: ModuleRow;
  readonly shown: DebuggerEntry;
  readonly marks: ModuleMarks;
  readonly isHere: boolean;
  readonly isSelected: boolean;
  readonly isFirst: boolean;
}

function Row({ row, shown, marks, isHere, isSelected, isFirst }: RowProps): JSX.Element {
  const { module, label, depth } = row;
  const found = shown.state.breakpoints.filter((each) => isFound(each.layer, module.name));
  const { place } = shown.state;
  return (
    <div class={`debug-module ${isHere ? "here" : ""} ${isSelected ? "selected" : ""}`}>
      <button
        type="button"
        class={`debug-break ${breakClass(found)}`}
        tabIndex={-1}
        aria-pressed={found.length > 0}
        title={found.length > 0 ? breakWords(found) : "Pause before this layer (B)"}
        onClick={() => toggleBreakpoint(module.name, shown)}
      >
        <span class="unseen">Breakpoint on {shownName(module.name)}</span>
      </button>
      <span class="debug-indent" style={{ width: `${Math.min(depth, 10) * 12}px` }} />
      <button
        type="button"
        class={`debug-caret ${row.open ? "open" : ""}`}
        tabIndex={-1}
        style={row.hasChildren ? {} : { visibility: "hidden" }}
        onClick={() => toggle(module.name)}
      >
        <Icon name="chevron" />
        <span class="unseen">{row.open ? "Close" : "Open"}</span>
      </button>
      <button
        type="button"
        class="debug-module-name"
        tabIndex={isSelected || isFirst ? 0 : -1}
        aria-pressed={isSelected}
        aria-current={isHere ? "location" : undefined}
        {...(row.hasChildren ? { "aria-expanded": row.open } : {})}
        title={`${shownName(module.name)}, ${shownName(module.class_name)}`}
        onClick={() => chooseModule(isSelected ? null : module.name)}
      >
        <bdi>{shownName(label)}</bdi> <bdi class="faint">{shownName(module.class_name)}</bdi>
      </button>
      {isHere && <span class="debug-here">{place?.edge === "after" ? "after" : "before"}</span>}
      <Marks marks={marks} name={module.name} />
    </div>
  );
}

function Marks({ marks, name }: { readonly marks: ModuleMarks; readonly name: string }): JSX.Element {
  const hits = marks.hits.get(name) ?? 0;
  const finding = marks.findings.get(name);
  return (
    <>
      {hits > 0 && (
        <span class="debug-hit-mark" title={`${hits} watchpoint hits`}>
          {hits}
          <span class="unseen"> hits</span>
        </span>
      )}
      {finding && (
        <span class={finding.severity === "error" ? "bad" : "warning"} title={finding.rules.join(", ")}>
          <Icon name={finding.severity === "error" ? "error" : "warning"} />
          <span class="unseen">findings: {finding.rules.join(", ")}</span>
        </span>
      )}
    </>
  );
}

function breakClass(found: readonly Breakpoint[]): string {
  if (found.length === 0) return "";
  return found.some((each) => each.is_on) ? "on" : "off";
}

function breakWords(found: readonly Breakpoint[]): string {
  return found
    .map(({ phase, is_on, step }) => {
      const since = step === null ? "" : `, from batch ${step}`;
      return `Pauses in ${phase}${since}${is_on ? "" : " (off)"}`;
    })
    .join("; ");
}

/** The layer's own breakpoint; those whose pattern finds others, too, are changed in their list. */
export function toggleBreakpoint(name: string, { state }: DebuggerEntry): void {
  const layer = exactPattern(name);
  const own = state.breakpoints.filter((each) => each.layer === layer);
  if (own.length === 0) void steer("set_breakpoint", { id: null, layer, phase: "forward", step: null, is_on: true });
  for (const { id } of own) void steer("remove_breakpoint", { id });
}

function toggle(name: string): void {
  const now = new Set(toggled.peek());
  if (!now.delete(name)) now.add(name);
  toggled.value = now;
}

function listKey(event: KeyboardEvent, rows: readonly ModuleRow[], chosen: number, shown: DebuggerEntry): boolean {
  const row = rows[chosen];
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const next = by === undefined ? undefined : rows[Math.min(Math.max(chosen + by, 0), rows.length - 1)];
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (next) chooseModule(next.module.name);
  else if (!row) return false;
  else if (event.key === "ArrowRight" && row.hasChildren && !row.open) toggle(row.module.name);
  else if (event.key === "ArrowLeft" && row.open) toggle(row.module.name);
  else if (event.key === "ArrowLeft" && row.module.parent !== null) chooseModule(row.module.parent);
  else if (event.key === "b" || event.key === "B") toggleBreakpoint(row.module.name, shown);
  else return false;
  return true;
}

/** What can be done with the chosen layer. */
function Actions({ row, shown }: { readonly row: ModuleRow; readonly shown: DebuggerEntry }): JSX.Element {
  const { module } = row;
  const isSet = entry.value?.state.breakpoints.some((each) => each.layer === exactPattern(module.name)) ?? false;
  return (
    <div class="debug-actions">
      <p class="debug-action-name">
        <bdi>{shownName(module.name)}</bdi>
        <span class="faint"> {module.parameters > 0 ? `${formatShort(module.parameters)} parameters` : ""}</span>
      </p>
      <button type="button" class="button" onClick={() => void steer("run_to", { layer: exactPattern(module.name) })}>
        Run to here
      </button>
      <button type="button" class="button" aria-pressed={isSet} onClick={() => toggleBreakpoint(module.name, shown)}>
        Break here
      </button>
      <button type="button" class="button" onClick={() => listTensorsOf(module.name)}>
        Tensors
      </button>
      {module.file !== null && (
        <button
          type="button"
          class="button"
          title={`${fileName(module.file)}:${module.line}`}
          onClick={() => showCode(module.file ?? "", module.line)}
        >
          Code
        </button>
      )}
    </div>
  );
}
