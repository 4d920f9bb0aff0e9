import type { JSX } from "preact";
import type { ComponentChildren } from "preact";
import type { Point } from "../../lib/gestures";

export interface TooltipProps {
  readonly at: Point;
  /** Of the picture around it: the tooltip stays inside. */
  readonly width: number;
  readonly height: number;
  readonly children: ComponentChildren;
}

/** Beside the pointer, on the side where there is room. */
export function Tooltip({ at, width, height, children }: TooltipProps): JSX.Element {
  const style = {
    ...(at.x < width / 2 ? { left: `${at.x + 14}px` } : { right: `${width - at.x + 14}px` }),
    ...(at.y < height / 2 ? { top: `${at.y + 12}px` } : { bottom: `${height - at.y + 12}px` }),
  };
  return (
    <div class="tensor-tooltip" style={style} aria-hidden="true">
      {children}
    </div>
  );
}

export interface FactsProps {
  readonly rows: readonly (readonly [label: string, value: string, tone?: "bad" | "muted"])[];
}

export function Facts({ rows }: FactsProps): JSX.Element {
  return (
    <dl class="facts">
      {rows.map(([label, value, tone]) => (
        <div key={label} class={tone ?? ""}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The same for a screen reader. */
export function factsSentence(rows: FactsProps["rows"]): string {
  return rows.map(([label, value]) => `${label} ${value}`).join(", ");
}
