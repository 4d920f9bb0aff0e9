import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { theme } from "../../app/state";
import { onSize } from "../../charts/canvas";
import { exportCsv, type CsvRow } from "../../charts/export";
import { paletteOf } from "../../charts/palette";
import { formatShort } from "../../lib/format";
import { plainName, shapesText } from "../../lib/graph-text";
import { type GraphTree, isContainer, isUnused, type Item } from "../../lib/graph-tree";
import type { GraphState } from "./graph-state";
import { parametersOf, titleOf, valueText } from "./paint-boxes";
import { type Colours, fillOf } from "./picture";

export interface TreeListProps {
  readonly state: GraphState;
  readonly colours: Colours;
  readonly exportName: string;
  readonly csv: () => readonly CsvRow[];
}

interface TreeRow {
  readonly item: Item;
  readonly depth: number;
  readonly place: number;
  readonly siblings: number;
}

const ROW_HEIGHT = 30;
const MARGIN_ROWS = 6;

/** The same modules as an indented list: for keys, screen readers and small screens. */
export function TreeList({ state, colours, exportName, csv }: TreeListProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const rows = useMemo(() => rowsOf(state.tree, state.open.value), [state, state.open.value]);
  const selected = rows.findIndex(({ item }) => item.id === state.selected.value);
  const look = (): void => {
    if (box.current) setSight({ top: box.current.scrollTop, height: box.current.clientHeight });
  };
  useEffect(() => (box.current ? onSize(box.current, look) : undefined), []);
  useEffect(() => reveal(box.current, selected), [selected]);
  const first = Math.max(0, Math.floor(sight.top / ROW_HEIGHT) - MARGIN_ROWS);
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.height) / ROW_HEIGHT) + MARGIN_ROWS);
  return (
    <div class="graph-list card">
      <div class="graph-list-head" aria-hidden="true">
        <span>Module</span>
        <span>Output</span>
        <span>Parameters</span>
        <span>{colours.measure.label}</span>
      </div>
      <div
        ref={box}
        class="graph-rows"
        role="tree"
        tabIndex={0}
        aria-label="Modules"
        {...(selected >= 0 ? { "aria-activedescendant": `graph-row-${rows[selected]?.item.id}` } : {})}
        onScroll={look}
        onKeyDown={(event) => {
          if (listKey(event, state, rows, selected)) {
            event.preventDefault();
            event.stopPropagation();
          }
        }}
      >
        <div role="presentation" style={{ height: `${rows.length * ROW_HEIGHT}px` }}>
          {rows.slice(first, last).map((row, place) => (
            <Row key={row.item.id} row={row} top={(first + place) * ROW_HEIGHT} state={state} colours={colours} />
          ))}
        </div>
      </div>
      <div class="chart-tools">
        <button type="button" class="tool" onClick={() => exportCsv(csv(), exportName)}>
          CSV
        </button>
      </div>
    </div>
  );
}

interface RowProps {
  readonly row: TreeRow;
  readonly top: number;
  readonly state: GraphState;
  readonly colours: Colours;
}

function Row({ row, top, state, colours }: RowProps): JSX.Element {
  const { item, depth } = row;
  const isOpen = state.open.value.has(item.id);
  const isSelected = state.selected.value === item.id;
  const value = colours.health.get(item.id)?.value ?? NaN;
  const fill = fillOf(value, colours.scale, paletteOf(theme.value));
  const parameters = parametersOf(state.tree, item);
  const indent = Math.min(depth, 12);
  return (
    <div
      id={`graph-row-${item.id}`}
      class={`graph-row ${isSelected ? "selected" : ""} ${isUnused(state.tree.items, item) ? "uncalled" : ""}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-posinset={row.place}
      aria-setsize={row.siblings}
      aria-selected={isSelected}
      {...(isContainer(item) ? { "aria-expanded": isOpen } : {})}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => (state.selected.value = item.id)}
      onDblClick={() => state.toggle(item.id)}
    >
      <span class="graph-row-name" style={{ paddingLeft: `${indent * 16}px` }}>
        {isContainer(item) ? (
          <span
            class={`graph-caret ${isOpen ? "open" : ""}`}
            onClick={(event) => {
              event.stopPropagation();
              state.toggle(item.id);
            }}
          >
            ▸
          </span>
        ) : (
          <span class="graph-caret" />
        )}
        <bdi>{plainName(item.kind === "stack" ? titleOf(state.tree, item) : item.label)}</bdi>
        <span class="muted">
          <bdi>{plainName(item.kind === "stack" ? item.label : (item.module?.class_name ?? ""))}</bdi>
          {(item.module?.calls ?? 0) > 1 && ` × ${item.module?.calls}`}
        </span>
      </span>
      <span class="graph-row-shape">
        {isUnused(state.tree.items, item) ? "never called" : shapesText(item.module?.outputs ?? [])}
      </span>
      <span class="graph-row-count">{parameters > 0 ? formatShort(parameters) : ""}</span>
      <span class="graph-row-value">
        <span class="graph-swatch" style={fill ? { background: fill.ground } : {}} />
        {valueText(colours.measure, value)}
      </span>
    </div>
  );
}

/** Visible rows from the top down; of a module that is drawn once for each call, one. */
function rowsOf(tree: GraphTree, open: ReadonlySet<number>): TreeRow[] {
  const rows: TreeRow[] = [];
  const shown = (ids: readonly number[]): Item[] =>
    ids
      .flatMap((id) => tree.items[id] ?? [])
      .filter(({ kind, call }) => kind !== "join" && kind !== "input" && kind !== "output" && call < 2);
  const stack = siblings(shown(tree.roots), 0).reverse();
  for (let row = stack.pop(); row; row = stack.pop()) {
    rows.push(row);
    if (open.has(row.item.id)) stack.push(...siblings(shown(row.item.children), row.depth + 1).reverse());
  }
  return rows;
}

function siblings(items: readonly Item[], depth: number): TreeRow[] {
  return items.map((item, index) => ({ item, depth, place: index + 1, siblings: items.length }));
}

function listKey(event: KeyboardEvent, state: GraphState, rows: readonly TreeRow[], selected: number): boolean {
  const at = Math.max(selected, 0);
  const item = rows[at]?.item;
  const choose = (place: number): void => {
    const row = rows[Math.min(Math.max(place, 0), rows.length - 1)];
    if (row) state.selected.value = row.item.id;
  };
  const isOpen = item !== undefined && state.open.peek().has(item.id);
  if (event.key === "ArrowDown") choose(selected + 1);
  else if (event.key === "ArrowUp") choose(selected - 1);
  else if (event.key === "Home") choose(0);
  else if (event.key === "End") choose(rows.length - 1);
  else if (event.key === "PageDown") choose(selected + 15);
  else if (event.key === "PageUp") choose(selected - 15);
  else if (!item) return false;
  else if (event.key === "ArrowRight") isContainer(item) && !isOpen ? state.toggle(item.id) : choose(at + 1);
  else if (event.key === "ArrowLeft")
    isOpen ? state.toggle(item.id) : choose(rows.findIndex((row) => row.item.id === item.parent));
  else if (event.key === "Enter" || event.key === " ") state.toggle(item.id);
  else return false;
  return true;
}

function reveal(box: HTMLDivElement | null, index: number): void {
  if (!box || index < 0) return;
  const [top, bottom] = [index * ROW_HEIGHT, (index + 1) * ROW_HEIGHT];
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
