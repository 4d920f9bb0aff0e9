import type { ComponentChildren, JSX } from "preact";
import { Icon } from "../app/icons";

export interface ChartToolsProps {
  readonly what: string;
  readonly onPng: () => void;
  readonly onCsv?: (() => void) | undefined;
  readonly onReset?: (() => void) | undefined;
  readonly children?: ComponentChildren;
}

/** The buttons of every chart. */
export function ChartTools({ what, onPng, onCsv, onReset, children }: ChartToolsProps): JSX.Element {
  const of = <span class="unseen"> of {what}</span>;
  return (
    <div class="chart-tools">
      {children}
      {onReset && (
        <button type="button" class="tool" title="Show all steps (R)" onClick={onReset}>
          <Icon name="reset" />
          <span class="unseen">Show all steps</span>
        </button>
      )}
      <button type="button" class="tool" title="Save as PNG" onClick={onPng}>
        PNG{of}
      </button>
      {onCsv && (
        <button type="button" class="tool" title="Save as CSV" onClick={onCsv}>
          CSV{of}
        </button>
      )}
    </div>
  );
}

/** What stands where a chart would be. */
export function ChartEmpty({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <div class="chart-empty">{children}</div>;
}
