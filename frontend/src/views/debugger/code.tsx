import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { sentence } from "../../app/debugger";
import { VirtualList } from "../../app/virtual-list";
import { fileName } from "../../lib/debugger-words";
import { pythonWords, type Word } from "../../lib/python-words";
import { shownName } from "../../lib/tensor-name";
import { parseSource, parseStack } from "../../wire/debugger-json";
import type { DebuggerEntry, SourceText, StackFrame } from "../../wire/debugger-types";
import { ask, useAsked } from "./asked";
import { chosenFrame, wantedCode, type CodePlace } from "./code-place";
import { FrameList, Locals } from "./frames";

const LINE_HEIGHT = 19;
type Known = SourceText | string;
/** Files that have come, or why they did not, by session and name. They do not change while a training runs. */
const sources = signal<ReadonlyMap<string, Known>>(new Map());

/** The code around where the training stands, how it came there, and its variables. */
export function Code({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const { value: frames, error, isOld } = useAsked("stack", {}, parseStack);
  const index = chosenFrame.value ?? Math.max(0, frames?.findIndex((frame) => frame.is_user) ?? 0);
  const frame = frames?.[index];
  const place = codePlace(shown, frame, isOld);
  const source = useSource(shown, place);
  return (
    <div class="debug-code">
      <p class="debug-code-head">
        {place ? (
          <>
            <bdi title={place.file}>{shownName(fileName(place.file))}</bdi>
            <span class="faint">line {place.line}</span>
          </>
        ) : (
          <span class="faint">{error ?? "The current line is shown here when the run is paused."}</span>
        )}
      </p>
      {typeof source === "string" && <p class="hint">{source}</p>}
      {source !== null && typeof source !== "string" && place && (
        <Lines key={source.file} source={source} line={place.line} isThere={shown.state.status === "paused"} />
      )}
      {place && isOld && error && <p class="hint">{error}</p>}
      {frames && frames.length > 0 && (
        <div class={`debug-frames ${isOld ? "debug-old" : ""}`}>
          <FrameList frames={frames} chosen={index} />
          {frame && <Locals frame={frame} />}
        </div>
      )}
    </div>
  );
}

/** While one steps fast the stack is old, and the place of the state is where it stands. */
function codePlace({ state }: DebuggerEntry, frame: StackFrame | undefined, isOld: boolean): CodePlace | null {
  if (wantedCode.value) return wantedCode.value;
  const { place } = state;
  if (isOld && place?.file && place.line > 0) return { file: place.file, line: place.line };
  return frame ? { file: frame.file, line: frame.line } : null;
}

function useSource({ key, state }: DebuggerEntry, place: CodePlace | null): Known | null {
  const name = place && `${key} ${place.file}`;
  useEffect(() => {
    if (place && name && !sources.peek().has(name)) void bring(key, name, place.file);
  }, [name, state.status]);
  return (name && sources.value.get(name)) ?? null;
}

const asked = new Set<string>();

async function bring(session: string, name: string, file: string): Promise<void> {
  if (asked.has(name)) return;
  asked.add(name);
  let found: Known;
  try {
    found = parseSource(await ask(session, "source", { file }));
  } catch (error) {
    found = sentence(error);
    // It may come at the next stop.
    asked.delete(name);
    if (sources.peek().has(name)) return;
  }
  sources.value = new Map([...sources.peek(), [name, found]]);
}

interface Line {
  readonly number: number;
  readonly words: readonly Word[];
}

interface LinesProps {
  readonly source: SourceText;
  readonly line: number;
  /** Whether the training stands in that line now. */
  readonly isThere: boolean;
}

function Lines({ source, line, isThere }: LinesProps): JSX.Element {
  const lines = useMemo(
    () => source.lines.map((text, i): Line => ({ number: source.first_line + i, words: pythonWords(text) })),
    [source],
  );
  // One element while nothing of it changes: a step within the line draws no code anew.
  return useMemo(
    () => (
      <div class="debug-lines">
        <VirtualList
          items={lines}
          rowHeight={LINE_HEIGHT}
          keyOf={(each) => String(each.number)}
          label={`Lines of ${shownName(fileName(source.file))}`}
          current={line - source.first_line}
          around={6}
          row={(each) => <CodeLine line={each} isHere={isThere && each.number === line} />}
        />
      </div>
    ),
    [lines, line, isThere],
  );
}

function CodeLine({ line, isHere }: { readonly line: Line; readonly isHere: boolean }): JSX.Element {
  return (
    <div class={`debug-line ${isHere ? "here" : ""}`} aria-current={isHere ? "location" : undefined}>
      <span class="debug-line-number">{line.number}</span>
      <code>
        {line.words.map((word, i) =>
          word.kind === "plain" ? (
            word.text
          ) : (
            <span key={i} class={`word-${word.kind}`}>
              {word.text}
            </span>
          ),
        )}
      </code>
    </div>
  );
}
