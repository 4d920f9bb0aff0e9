import type { ComponentChildren, JSX } from "preact";
import "./tiles.css";

export interface TileProps {
  readonly title: string;
  readonly value: string;
  readonly note?: ComponentChildren;
  readonly tone?: "good" | "warning" | "bad" | undefined;
}

/** A number that one looks for first. */
export function Tile({ title, value, note, tone }: TileProps): JSX.Element {
  return (
    <div class="card tile">
      <span class="tile-title">{title}</span>
      <span class={`tile-value ${tone ?? ""}`}>{value}</span>
      <span class="tile-note">{note}</span>
    </div>
  );
}

export function Tiles({
  children,
  label,
}: {
  readonly children: ComponentChildren;
  readonly label: string;
}): JSX.Element {
  return (
    <section class="tiles" aria-label={label}>
      {children}
    </section>
  );
}

interface SectionProps {
  readonly title: string;
  /** What the section says, in a sentence. */
  readonly reading?: ComponentChildren;
  readonly tone?: "good" | "warning" | "bad" | undefined;
  readonly children: ComponentChildren;
}

export function Section({ title, reading, tone, children }: SectionProps): JSX.Element {
  return (
    <section class="page-section">
      <h3>{title}</h3>
      {reading && <p class={`page-reading ${tone ?? ""}`}>{reading}</p>}
      {children}
    </section>
  );
}
