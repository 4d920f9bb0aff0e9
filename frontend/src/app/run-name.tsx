import type { JSX } from "preact";
import { shownName } from "../lib/tensor-name";

/** A run's name of which the end survives when there is little room: folders give way first. */
export function RunName({ name }: { readonly name: string }): JSX.Element {
  if (name.trim() === "" || name === ".")
    return <span class="run-name faint">{name === "." ? "(the logdir itself)" : "(no name)"}</span>;
  const short = shownName(name);
  const slash = short.lastIndexOf("/") + 1;
  // Own directions, so that a right-to-left name does not turn its surroundings around.
  // A date at the end says less than the folder before it.
  const dated = /^\d{4}-\d\d-\d\d/.test(short.slice(slash));
  return (
    <span class={`run-name ${dated && slash > 0 ? "dated" : ""}`}>
      {slash > 0 && <bdi class="run-folder">{short.slice(0, slash)}</bdi>}
      <bdi class="run-base">{short.slice(slash)}</bdi>
    </span>
  );
}
