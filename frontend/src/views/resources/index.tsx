import type { JSX } from "preact";
import type { ViewProps } from "../../app/view";

export function ResourcesView({ run }: ViewProps): JSX.Element {
  return <p class="hint">{run ? run.name : "Choose a run."}</p>;
}
