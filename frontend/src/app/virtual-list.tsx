import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { onSize } from "../charts/canvas";

export interface VirtualListProps<Item> {
  readonly items: readonly Item[];
  readonly rowHeight: number;
  readonly keyOf: (item: Item) => string;
  readonly row: (item: Item, index: number) => JSX.Element;
  readonly label: string;
  /** Scrolled into sight when it changes. */
  readonly current: number;
  /** How many rows around that one come into sight with it. */
  readonly around?: number;
}

const MARGIN_ROWS = 4;

/** A list of thousands of rows of one height, of which only those in sight exist. */
export function VirtualList<Item>(props: VirtualListProps<Item>): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const { items, rowHeight, current, around = 0 } = props;
  const look = (): void => {
    const element = box.current;
    if (element) setSight({ top: element.scrollTop, height: element.clientHeight });
  };
  const latest = useRef(props);
  latest.current = props;
  const resized = (): void => {
    look();
    // What is held in the middle stays in sight when the list gets smaller.
    const { current: row, around: room } = latest.current;
    if (room !== undefined) reveal(box.current, row, rowHeight, room);
  };
  useEffect(() => (box.current ? onSize(box.current, resized) : undefined), []);
  useEffect(() => reveal(box.current, current, rowHeight, around), [current]);
  const first = Math.max(0, Math.floor(sight.top / rowHeight) - MARGIN_ROWS);
  const last = Math.min(items.length, Math.ceil((sight.top + sight.height) / rowHeight) + MARGIN_ROWS);
  return (
    <div class="virtual" ref={box} onScroll={look}>
      <ul class="virtual-space" style={{ height: `${items.length * rowHeight}px` }} aria-label={props.label}>
        {items.slice(first, last).map((item, index) => (
          <li
            key={props.keyOf(item)}
            class="virtual-row"
            aria-setsize={items.length}
            aria-posinset={first + index + 1}
            style={{ transform: `translateY(${(first + index) * rowHeight}px)`, height: `${rowHeight}px` }}
          >
            {props.row(item, first + index)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function reveal(box: HTMLDivElement | null, index: number, rowHeight: number, around: number): void {
  if (!box || index < 0) return;
  const room = Math.max(0, Math.min(around, Math.floor((box.clientHeight / rowHeight - 1) / 2)));
  const [top, bottom] = [(index - room) * rowHeight, (index + 1 + room) * rowHeight];
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
