import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { VirtualList } from "../../app/virtual-list";
import { setParam, params } from "../../app/state";
import { formatNumber } from "../../lib/format";
import { matches } from "../../lib/row-tree";
import { shownName } from "../../lib/tensor-name";
import type { HeatAnswer } from "../../wire/types";

export interface TensorListProps {
  readonly names: readonly string[];
  readonly selected: string;
  /** Sizes over time, for the little curves; null until they have come. */
  readonly hints: HeatAnswer | null;
  readonly onSelect: (name: string) => void;
}

interface Item {
  readonly name: string;
  readonly line: string;
  readonly newest: string;
}

const ROW_HEIGHT = 38;
const CURVE = { width: 44, height: 16 };

/** All tensors of a kind, with a curve of their size over the run. */
export function TensorList({ names, selected, hints, onSelect }: TensorListProps): JSX.Element {
  const search = params.value["histograms.search"] ?? "";
  const items = useMemo(() => matches(names, search).map((i) => itemOf(names[i] ?? "", hints)), [names, search, hints]);
  const current = items.findIndex((item) => item.name === selected);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => moveFocus(list.current), [selected]);
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const next = by === undefined ? undefined : items[Math.min(Math.max(current + by, 0), items.length - 1)];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    onSelect(next.name);
  };
  return (
    <div ref={list} class="card tensor-list" onKeyDown={key}>
      <input
        type="search"
        placeholder={`Search ${names.length} names`}
        aria-label="Search tensors by name; arrow keys move through the list"
        value={search}
        onInput={(event) => setParam("histograms.search", event.currentTarget.value || null)}
      />
      {items.length === 0 && <p class="muted">No name contains “{search}”.</p>}
      <VirtualList
        items={items}
        rowHeight={ROW_HEIGHT}
        keyOf={(item) => item.name}
        label="Tensors"
        current={current}
        row={(item) => <TensorRow item={item} selected={item.name === selected} onSelect={onSelect} />}
      />
    </div>
  );
}

/** The row that the keys chose gets the focus of the one before; the search keeps it. */
function moveFocus(list: HTMLElement | null): void {
  if (!list?.contains(document.activeElement) || !(document.activeElement instanceof HTMLButtonElement)) return;
  list.querySelector<HTMLButtonElement>('.tensor-row[aria-pressed="true"]')?.focus({ preventScroll: true });
}

interface TensorRowProps {
  readonly item: Item;
  readonly selected: boolean;
  readonly onSelect: (name: string) => void;
}

function TensorRow({ item, selected, onSelect }: TensorRowProps): JSX.Element {
  const name = shownName(item.name);
  const [head, tail, own] = nameParts(name);
  return (
    <button type="button" class="tensor-row" aria-pressed={selected} title={name} onClick={() => onSelect(item.name)}>
      <span class="tensor-row-name">
        {tail && (
          <span class="tensor-row-path">
            {head && <bdi class="tensor-row-head">{head}</bdi>}
            <bdi class="tensor-row-tail">{tail}</bdi>
          </span>
        )}
        <bdi class="tensor-row-own">{own}</bdi>
      </span>
      <span class="tensor-row-hint" aria-hidden="true">
        <svg width={CURVE.width} height={CURVE.height} viewBox={`0 0 ${CURVE.width} ${CURVE.height}`}>
          <path d={item.line} />
        </svg>
        {item.newest}
      </span>
    </button>
  );
}

/** The tensor's own part, what its module is called, and the way there, which gives way first when there is no room. */
function nameParts(name: string): [head: string, tail: string, own: string] {
  const parts = name.split(".");
  const own = parts.pop() ?? name;
  const tail = parts.pop() ?? "";
  return [parts.length > 0 ? `${parts.join(".")}.` : "", tail, own];
}

function itemOf(name: string, hints: HeatAnswer | null): Item {
  const row = hints?.names.indexOf(name) ?? -1;
  if (!hints || row < 0) return { name, line: "", newest: "" };
  const columns = hints.first.length;
  const values = Array.from(hints.values.subarray(row * columns, (row + 1) * columns)).filter(
    (value) => !Number.isNaN(value),
  );
  const newest = values.at(-1);
  return { name, line: curve(values), newest: newest === undefined ? "" : formatNumber(newest, 2) };
}

/** On a logarithmic scale of its own, at least a decade high, so that noise stays flat. */
function curve(values: readonly number[]): string {
  const logs = values.map((value) => (value > 0 && Number.isFinite(value) ? Math.log10(value) : NaN));
  const known = logs.filter((log) => !Number.isNaN(log));
  if (known.length < 2) return "";
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const middle = (low + high) / 2;
  const half = Math.max(0.5, (high - low) / 2);
  let pen = "M";
  return logs
    .map((log, i) => {
      if (Number.isNaN(log)) {
        pen = "M";
        return "";
      }
      const x = 1 + (i / Math.max(1, logs.length - 1)) * (CURVE.width - 2);
      const y = CURVE.height / 2 - ((log - middle) / half) * (CURVE.height / 2 - 1.5);
      const piece = `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
      return piece;
    })
    .join("");
}
