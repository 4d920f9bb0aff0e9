import { signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { sentence } from "../../app/debugger";
import { clientId } from "../../app/debugger-client";
import { Icon } from "../../app/icons";
import { saveFile } from "../../charts/export";
import { shapeWords } from "../../lib/debugger-words";
import { formatBytes } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { fetchTensor } from "../../wire/debugger-client";
import { parseTensorView } from "../../wire/debugger-json";
import type { DebuggerEntry, TensorView } from "../../wire/debugger-types";
import { Segments } from "../layers/segments";
import { useAsked } from "./asked";
import { Look } from "./tensor-look";
import { TensorTime } from "./tensor-time";
import { TypedField } from "./typed-field";

type Which = "now" | "previous" | "difference";

/** The slice that was chosen, by the name of the tensor. */
const slices = signal<Readonly<Record<string, string>>>({});
const which = signal<Which>("now");
const CELLS = 4096;

/** One tensor: its numbers, its values, how it changed, and how it was before. */
export function Inspector({ shown, name }: { readonly shown: DebuggerEntry; readonly name: string }): JSX.Element {
  const slice = slices.value[name] || null;
  const given = { name, slice, previous: which.value !== "now", cells: CELLS };
  const { value, error, isOld } = useAsked("tensor", given, parseTensorView);
  const view = value?.name === name ? value : null;
  return (
    <article class="debug-inspector" aria-label={`Tensor ${shownName(name)}`}>
      <header>
        <h3>
          <bdi>{shownName(name)}</bdi>
        </h3>
        {view && (
          <p class="muted">
            {shapeWords(view.shape)} {view.dtype}, {view.device}, {formatBytes(view.bytes)}
          </p>
        )}
      </header>
      <div class="debug-inspector-tools">
        <SliceField key={name} name={name} given={slice} understood={view?.slice ?? null} />
        <Segments
          options={[
            { value: "now", label: "now" },
            { value: "previous", label: "previous step", hint: "The same tensor in the previous step" },
            { value: "difference", label: "difference", hint: "Now minus the previous step" },
          ]}
          value={which.value}
          onChange={(next) => (which.value = next)}
          label="Values to show"
        />
        <Download shown={shown} name={name} slice={slice} bytes={view?.bytes ?? null} />
      </div>
      {error && (
        <p class="bad" role="alert">
          {shownName(error)}
        </p>
      )}
      {!view && !error && (
        <p class="hint">{shown.state.status === "paused" ? "Loading …" : "Pause the run to see it."}</p>
      )}
      {view && (
        <div class={isOld ? "debug-old" : ""}>
          <Chosen view={view} />
          {view.notes.map((note) => (
            <p key={note} class="faint">
              {shownName(note)}
            </p>
          ))}
        </div>
      )}
      <TensorTime shown={shown} name={name} />
    </article>
  );
}

function Chosen({ view }: { readonly view: TensorView }): JSX.Element {
  const look = which.value === "now" ? view : view[which.value];
  if (look) return <Look look={look} name={view.name} slice={view.slice} />;
  return <p class="hint">Nothing was kept from the previous step. Take one more step to compare.</p>;
}

interface SliceFieldProps {
  readonly name: string;
  readonly given: string | null;
  readonly understood: string | null;
}

function SliceField({ name, given, understood }: SliceFieldProps): JSX.Element {
  const change = (text: string): void => {
    slices.value = { ...slices.peek(), [name]: text.trim() };
  };
  return (
    <label class="setting debug-slice">
      Slice
      <TypedField
        label="Slice"
        hint="A NumPy slice, such as [0, :, 3:10]; press Enter to apply it"
        placeholder={understood || "[0, :, 3:10]"}
        value={given ?? ""}
        onChange={change}
      />
    </label>
  );
}

interface DownloadProps {
  readonly shown: DebuggerEntry;
  readonly name: string;
  readonly slice: string | null;
  readonly bytes: number | null;
}

function Download({ shown, name, slice, bytes }: DownloadProps): JSX.Element {
  const progress = useSignal<number | null>(null);
  const error = useSignal<string | null>(null);
  const load = async (): Promise<void> => {
    progress.value = 0;
    error.value = null;
    try {
      const wanted = { client: clientId(), session: shown.key, name, slice };
      const file = await fetchTensor(wanted, (come) => (progress.value = come));
      saveFile(file, `${name}${slice ?? ""}`, "npy");
    } catch (found) {
      error.value = sentence(found);
    }
    progress.value = null;
  };
  const isOff = progress.value !== null || shown.state.status !== "paused";
  return (
    <>
      <button
        type="button"
        class="button"
        disabled={isOff}
        title={slice === null ? `The whole tensor as a NumPy file, ${formatBytes(bytes)}` : "The slice as a NumPy file"}
        onClick={() => void load()}
      >
        <Icon name="download" /> {progress.value === null ? ".npy" : formatBytes(progress.value)}
      </button>
      {error.value && (
        <span class="bad" role="alert">
          {shownName(error.value)}
        </span>
      )}
    </>
  );
}
