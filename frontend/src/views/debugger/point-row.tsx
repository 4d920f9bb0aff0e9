import type { ComponentChildren, JSX } from "preact";
import { Icon } from "../../app/icons";

interface PointRowProps {
  readonly name: string;
  readonly isOn: boolean;
  readonly hits: number;
  readonly onSwitch: () => void;
  readonly onRemove: () => void;
  /** What is wrong with it. */
  readonly note?: string | null;
  readonly children: ComponentChildren;
}

/** A breakpoint or a watchpoint, edited in place. */
export function PointRow({ name, isOn, hits, onSwitch, onRemove, note, children }: PointRowProps): JSX.Element {
  return (
    <section class={`debug-row ${isOn ? "" : "debug-off"}`} aria-label={name}>
      <label class="debug-switch" title={isOn ? "On" : "Off"}>
        <input type="checkbox" checked={isOn} onChange={onSwitch} />
        <span class="unseen">On</span>
      </label>
      {children}
      <span class="debug-count" title="How often it paused the run">
        {hits > 0 && `${hits} ×`}
      </span>
      <button type="button" class="button icon-button" title="Remove" onClick={onRemove}>
        <Icon name="close" />
        <span class="unseen">Remove {name}</span>
      </button>
      {note && <p class="debug-row-note warning">{note}</p>}
    </section>
  );
}
