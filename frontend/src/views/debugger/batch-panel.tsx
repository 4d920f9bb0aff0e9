import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { sentence } from "../../app/debugger";
import { clientId } from "../../app/debugger-client";
import { batchPlan, picturesOf, rowsOf, type BatchPlan, type Picture } from "../../lib/debugger-batch";
import { shapeWords, unseenBatchWords } from "../../lib/debugger-words";
import { formatNumber } from "../../lib/format";
import { readNpy, type NumberArray } from "../../lib/npy";
import { shownName } from "../../lib/tensor-name";
import { fetchTensor } from "../../wire/debugger-client";
import { parseBatch } from "../../wire/debugger-json";
import type { BatchEntry, DebuggerEntry } from "../../wire/debugger-types";
import { stop, useAsked } from "./asked";
import { chooseTensor } from "./choices";
import { Waiting } from "./waiting";

/** What the model was given in this batch, and what the loss was given beside its output. */
export function BatchPanel({ shown }: { readonly shown: DebuggerEntry }): JSX.Element {
  const { value, error, isOld } = useAsked("batch", {}, parseBatch);
  if (value === null) return <Waiting error={error} what="the batch" />;
  if (value.length === 0) return <p class="hint">{unseenBatchWords(shown)}</p>;
  return <Entries session={shown.key} entries={value} isOld={isOld} />;
}

interface EntriesProps {
  readonly session: string;
  readonly entries: readonly BatchEntry[];
  readonly isOld: boolean;
}

function Entries({ session, entries, isOld }: EntriesProps): JSX.Element {
  const labels = entries.find((each) => each.role === "label" && each.shape.length === 1);
  const named = useArray(session, labels ?? null);
  return (
    <div class={`debug-stacked ${isOld ? "debug-old" : ""}`}>
      {entries.map((each) => (
        <Entry
          key={each.name}
          session={session}
          entry={each}
          labels={each !== labels && each.shape[0] === labels?.shape[0] ? named.array : null}
        />
      ))}
      {entries.every((each) => each.role !== "label") && (
        <p class="hint">The inputs of the loss are captured from its first call after the pause.</p>
      )}
    </div>
  );
}

interface EntryProps {
  readonly session: string;
  readonly entry: BatchEntry;
  /** Of the pictures, where there is one for each. */
  readonly labels: NumberArray | null;
}

function Entry({ session, entry, labels }: EntryProps): JSX.Element {
  const { array, error, plan } = useArray(session, entry);
  return (
    <section class="debug-batch" aria-label={shownName(entry.name)}>
      <h4>
        <span class="faint">{entry.role}</span>{" "}
        <button type="button" class="link" onClick={() => chooseTensor(entry.name)}>
          <bdi>{shownName(entry.of || entry.name)}</bdi>
        </button>{" "}
        <span class="faint">
          {shapeWords(entry.shape)} {entry.dtype}
        </span>
      </h4>
      {error && <p class="bad">{shownName(error)}</p>}
      {array && plan.look === "pictures" && <Pictures array={array} plan={plan} labels={labels} />}
      {array && plan.look === "tokens" && <Tokens array={array} />}
      {array && plan.look === "numbers" && <Numbers array={array} />}
    </section>
  );
}

interface Fetched {
  readonly array: NumberArray | null;
  readonly error: string | null;
  readonly plan: BatchPlan;
}

/** The first pictures, tokens or numbers, asked for again at each stop. */
function useArray(session: string, entry: BatchEntry | null): Fetched {
  const [found, setFound] = useState<Omit<Fetched, "plan">>({ array: null, error: null });
  const plan = batchPlan(entry?.shape ?? [], entry?.dtype ?? "");
  const at = stop.value;
  useEffect(() => {
    if (!entry || at === null) return;
    let isStale = false;
    fetchTensor({ client: clientId(), session, name: entry.name, slice: plan.slice })
      .then(async (file) => readNpy(await file.arrayBuffer()))
      .then(
        (array) => isStale || setFound({ array, error: null }),
        (error: unknown) => isStale || setFound({ array: null, error: sentence(error) }),
      );
    return () => (isStale = true);
  }, [session, entry?.name, plan.slice, at]);
  return { ...found, plan };
}

interface PicturesProps {
  readonly array: NumberArray;
  readonly plan: BatchPlan;
  readonly labels: NumberArray | null;
}

function Pictures({ array, plan, labels }: PicturesProps): JSX.Element {
  const pictures = useMemo(() => picturesOf(array, plan.channels), [array]);
  return (
    <ul class="debug-pictures">
      {pictures.map((picture, i) => (
        <li key={i} title={`Black is ${formatNumber(picture.low)}, white is ${formatNumber(picture.high)}`}>
          <PictureCanvas picture={picture} label={`Picture ${i}`} />
          <span>{labels?.values[i] === undefined ? i : `label ${formatNumber(labels.values[i])}`}</span>
        </li>
      ))}
    </ul>
  );
}

function PictureCanvas({ picture, label }: { readonly picture: Picture; readonly label: string }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const { width, height, pixels } = picture;
    const context = width > 0 && height > 0 ? canvas.current?.getContext("2d") : null;
    context?.putImageData(new ImageData(pixels, width, height), 0, 0);
  }, [picture]);
  return <canvas ref={canvas} width={picture.width} height={picture.height} role="img" aria-label={label} />;
}

function Tokens({ array }: { readonly array: NumberArray }): JSX.Element {
  const rows = array.shape.length < 2 ? [[...array.values]] : rowsOf(array);
  return (
    <ol class="debug-tokens">
      {rows.map((row, i) => (
        <li key={i}>
          {row.map((token, j) => (
            <span key={j}>{token}</span>
          ))}
        </li>
      ))}
    </ol>
  );
}

function Numbers({ array }: { readonly array: NumberArray }): JSX.Element {
  return (
    <div class="debug-numbers">
      <table>
        <tbody>
          {rowsOf(array).map((row, i) => (
            <tr key={i}>
              <th scope="row">{i}</th>
              {row.map((value, j) => (
                <td key={j}>{formatNumber(value, 3)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
