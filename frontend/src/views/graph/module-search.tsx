import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Icon } from "../../app/icons";
import { plainName } from "../../lib/graph-text";
import type { Item } from "../../lib/graph-tree";
import { searchFor } from "../../lib/search";
import type { GraphState } from "./graph-state";

const MOST_RESULTS = 60;

/** Finds modules by name or class; choosing one opens what hides it and brings it to the middle. */
export function ModuleSearch({ state }: { readonly state: GraphState }): JSX.Element {
  const text = useSignal("");
  const isOpen = useSignal(false);
  const active = useSignal(0);
  const { found, complaint, total } = useMemo(() => find(state, text.value), [state, text.value]);
  const choose = (item: Item | undefined): void => {
    if (!item) return;
    state.show(item.id);
    isOpen.value = false;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") active.value = Math.min(active.value + 1, found.length - 1);
    else if (event.key === "ArrowUp") active.value = Math.max(active.value - 1, 0);
    else if (event.key === "Enter") choose(found[active.value]);
    else if (event.key === "Escape") isOpen.value = false;
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const isShown = isOpen.value && text.value.trim() !== "";
  return (
    <div class="graph-search" onFocusOut={(event) => closeOutside(event, () => (isOpen.value = false))}>
      <Icon name="search" />
      <input
        type="search"
        placeholder="Find a module"
        aria-label="Find a module by name or class"
        // biome-ignore lint/a11y/noRedundantRoles: it takes `list` for given, whose value is none
        role="combobox"
        list={undefined}
        aria-expanded={isShown}
        aria-controls="graph-results"
        {...(isShown && found.length > 0 ? { "aria-activedescendant": `graph-result-${active.value}` } : {})}
        value={text.value}
        onFocus={() => (isOpen.value = true)}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          isOpen.value = true;
          active.value = 0;
        }}
        onKeyDown={key}
      />
      {isShown && (
        <ul id="graph-results" class="graph-results" role="listbox" aria-label="Modules found">
          {found.map((item, place) => (
            <li
              key={item.id}
              id={`graph-result-${place}`}
              role="option"
              aria-selected={place === active.value}
              onPointerDown={(event) => {
                event.preventDefault();
                choose(item);
              }}
            >
              <strong>{item.module?.class_name.slice(0, 80)}</strong> <bdi>{plainName(item.module?.name ?? "")}</bdi>
            </li>
          ))}
          {total > found.length && <li class="muted">and {total - found.length} more; type more of the name</li>}
          {total === 0 && <li class="muted">No modules match.</li>}
          {complaint && <li class="warning">{complaint}</li>}
        </ul>
      )}
    </div>
  );
}

interface Found {
  readonly found: readonly Item[];
  readonly total: number;
  readonly complaint: string | null;
}

function find(state: GraphState, text: string): Found {
  const { matches, complaint } = searchFor(text);
  if (text.trim() === "") return { found: [], total: 0, complaint };
  const { items, byName } = state.tree;
  const all = [...byName.values()].flatMap((id) => items[id] ?? []);
  const named = all.filter((item) => matches(item.module?.name ?? ""));
  const isNamed = new Set(named);
  // Whose name fits comes before whose class does.
  const found = [
    ...named,
    ...all.filter((item) => !isNamed.has(item) && matches(`${item.module?.name} ${item.module?.class_name}`)),
  ];
  return { found: found.slice(0, MOST_RESULTS), total: found.length, complaint };
}

function closeOutside(event: FocusEvent, close: () => void): void {
  const [box, next] = [event.currentTarget, event.relatedTarget];
  if (!(box instanceof Node && next instanceof Node && box.contains(next))) close();
}
