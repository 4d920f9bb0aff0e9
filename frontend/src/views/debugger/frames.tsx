import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { fileName } from "../../lib/debugger-words";
import { shownName } from "../../lib/tensor-name";
import type { StackFrame } from "../../wire/debugger-types";
import { chosenFrame, wantedCode } from "./code-place";

interface FrameListProps {
  /** Innermost first. */
  readonly frames: readonly StackFrame[];
  readonly chosen: number;
}

/** The calls that led here; those of libraries are folded away. */
export function FrameList({ frames, chosen }: FrameListProps): JSX.Element {
  const all = useSignal(false);
  const own = frames.flatMap((frame, index) => (frame.is_user ? [index] : []));
  const isFolded = !all.value && own.length > 0;
  const shown = frames.flatMap((frame, index) => (!isFolded || frame.is_user || index === chosen ? [index] : []));
  const folded = frames.length - own.length;
  return (
    <section class="debug-stack" aria-label="Stack">
      <h4>
        Stack
        {folded > 0 && own.length > 0 && (
          <button type="button" class="link" aria-pressed={all.value} onClick={() => (all.value = !all.value)}>
            {all.value ? "Only own code" : `${folded} more in libraries`}
          </button>
        )}
      </h4>
      <ol class="debug-frame-list">
        {shown.map((index) => (
          <Frame key={index} frame={frames[index] as StackFrame} index={index} isChosen={index === chosen} />
        ))}
      </ol>
    </section>
  );
}

interface FrameProps {
  readonly frame: StackFrame;
  readonly index: number;
  readonly isChosen: boolean;
}

function Frame({ frame, index, isChosen }: FrameProps): JSX.Element {
  return (
    <li>
      <button
        type="button"
        class={`debug-frame ${frame.is_user ? "own" : ""}`}
        aria-pressed={isChosen}
        title={`${frame.file}:${frame.line}`}
        onClick={() => {
          chosenFrame.value = index;
          wantedCode.value = null;
        }}
      >
        <bdi>{shownName(frame.function)}</bdi>
        <span class="faint">
          <bdi>{shownName(fileName(frame.file))}</bdi>:{frame.line}
        </span>
      </button>
    </li>
  );
}

export function Locals({ frame }: { readonly frame: StackFrame }): JSX.Element {
  return (
    <section class="debug-locals" aria-label="Variables">
      <h4>
        Variables of <bdi>{shownName(frame.function)}</bdi>
      </h4>
      {frame.locals.length === 0 && <p class="faint">None.</p>}
      <dl>
        {frame.locals.map((local) => (
          <div key={local.name} title={shownName(local.type)}>
            <dt>
              <bdi>{shownName(local.name)}</bdi>
            </dt>
            <dd>
              <bdi>{shownName(local.text)}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
