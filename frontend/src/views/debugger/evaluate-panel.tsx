import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { sentence } from "../../app/debugger";
import { shapeWords } from "../../lib/debugger-words";
import { shownName } from "../../lib/tensor-name";
import { parseTensorView } from "../../wire/debugger-json";
import type { DebuggerEntry, TensorView } from "../../wire/debugger-types";
import { ask } from "./asked";
import { Look } from "./tensor-look";

interface Result {
  readonly text: string;
  readonly view: TensorView | null;
  readonly error: string | null;
}

const history = signal<readonly string[]>([]);
const typed = signal("");
const result = signal<Result | null>(null);
const isBusy = signal(false);
const MOST_REMEMBERED = 30;

/** Expressions over tensors, in the debugger's own small language. */
export function EvaluatePanel({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  return (
    <div class="debug-stacked">
      <form
        class="debug-filter"
        onSubmit={(event) => {
          event.preventDefault();
          void evaluate(shown.key);
        }}
      >
        <input
          type="text"
          class="grow debug-expression"
          aria-label="Expression"
          placeholder="norm(`gradient:encoder.0.weight`)"
          spellcheck={false}
          maxLength={2000}
          value={typed.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
          onKeyDown={(event) => recall(event)}
        />
        <button type="submit" class="button" disabled={isBusy.value || typed.value.trim() === ""}>
          Evaluate
        </button>
      </form>
      {history.value.length === 0 && (
        <p class="muted">
          Write tensor names in backticks. Functions are named as in NumPy, such as abs, mean, max, norm and matmul.
          Nothing you type here is run as Python.
        </p>
      )}
      {result.value && <Shown result={result.value} />}
      <History />
    </div>
  );
}

async function evaluate(session: string): Promise<void> {
  const text = typed.peek().trim();
  if (text === "") return;
  history.value = [text, ...history.peek().filter((each) => each !== text)].slice(0, MOST_REMEMBERED);
  isBusy.value = true;
  try {
    const view = parseTensorView(await ask(session, "evaluate", { text, cells: 1024 }));
    result.value = { text, view, error: null };
  } catch (error) {
    result.value = { text, view: null, error: sentence(error) };
  }
  isBusy.value = false;
}

/** Up and down go through what was asked before. */
function recall(event: KeyboardEvent): void {
  const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (by === undefined) return;
  const all = history.peek();
  const next = all[Math.min(all.indexOf(typed.peek()) + by, all.length - 1)];
  typed.value = next ?? "";
  event.preventDefault();
}

function Shown({ result: { text, view, error } }: { readonly result: Result }): JSX.Element {
  return (
    <section class="debug-result" aria-label="Result" aria-live="polite">
      <h4>
        <code>{shownName(text)}</code>
      </h4>
      {error && <p class="bad">{shownName(error)}</p>}
      {view && (
        <>
          <p class="muted">
            {shapeWords(view.shape)} {view.dtype}
          </p>
          {view.notes.map((note) => (
            <p key={note} class="faint">
              {shownName(note)}
            </p>
          ))}
          <Look look={view} name={text} slice={view.slice} />
        </>
      )}
    </section>
  );
}

function History(): JSX.Element | null {
  if (history.value.length < 2) return null;
  return (
    <section class="debug-history" aria-label="History">
      <h4>History</h4>
      {history.value.slice(1).map((text) => (
        <button key={text} type="button" class="link" onClick={() => (typed.value = text)}>
          <code>{shownName(text)}</code>
        </button>
      ))}
    </section>
  );
}
