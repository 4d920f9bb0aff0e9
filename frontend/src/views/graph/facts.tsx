import type { ComponentChildren, JSX } from "preact";
import { shapeText } from "../../lib/graph-text";
import type { TensorShape } from "../../wire/types";

/** A line of a description list. */
export function Fact({
  label,
  children,
}: {
  readonly label: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export const MOST_SHAPES = 6;

export function Shapes({ tensors }: { readonly tensors: readonly TensorShape[] }): JSX.Element {
  if (tensors.length === 0) return <span class="muted">–</span>;
  return (
    <>
      {tensors.slice(0, MOST_SHAPES).map(({ shape, dtype }, place) => (
        <span key={place} class="graph-shape">
          {shapeText(shape)} <span class="muted">{dtype}</span>
        </span>
      ))}
      {tensors.length > MOST_SHAPES && <span class="muted">and {tensors.length - MOST_SHAPES} more</span>}
    </>
  );
}
