import type { JSX } from "preact";
import { VirtualList } from "../../app/virtual-list";
import { kindWords, shapeWords } from "../../lib/debugger-words";
import { formatBytes } from "../../lib/format";
import { shownName } from "../../lib/tensor-name";
import { parseTensors } from "../../wire/debugger-json";
import { TENSOR_KINDS, type TensorEntry } from "../../wire/debugger-types";
import { useAsked } from "./asked";
import { chosenTensor, chooseTensor, tensorKind, tensorSearch } from "./choices";
import { Waiting } from "./waiting";

const ROW_HEIGHT = 40;
const MOST = 500;

/** All tensors within reach of where the training stands. */
export function TensorsPanel(): JSX.Element {
  const match = pattern(tensorSearch.value);
  const given = { kind: tensorKind.value, match, most: MOST };
  const { value, error, isOld } = useAsked("tensors", given, parseTensors);
  const chosen = chosenTensor();
  return (
    <div class="debug-tensors">
      <div class="debug-filter">
        <select
          aria-label="Tensor kind"
          value={tensorKind.value ?? ""}
          onChange={(event) => (tensorKind.value = event.currentTarget.value || null)}
        >
          <option value="">all kinds</option>
          {TENSOR_KINDS.map((kind) => (
            <option key={kind} value={kind}>
              {kindWords(kind)}
            </option>
          ))}
        </select>
        <input
          type="search"
          placeholder="Search names"
          aria-label="Search tensors by name"
          spellcheck={false}
          value={tensorSearch.value}
          onInput={(event) => (tensorSearch.value = event.currentTarget.value)}
        />
      </div>
      {value === null ? (
        <Waiting error={error} what="the tensors" />
      ) : (
        <>
          {error && <p class="bad">{shownName(error)}</p>}
          {value.length === 0 && <p class="hint">No available tensors match.</p>}
          {value.length >= MOST && <p class="faint">The first {MOST} are listed.</p>}
          <div class={`debug-list ${isOld ? "debug-old" : ""}`}>
            <VirtualList
              items={value}
              rowHeight={ROW_HEIGHT}
              keyOf={(each) => each.name}
              label="Tensors"
              current={value.findIndex((each) => each.name === chosen)}
              row={(each) => <Row tensor={each} isChosen={each.name === chosen} />}
            />
          </div>
        </>
      )}
    </div>
  );
}

/** What was typed, as it stands; every dot means a dot. */
function pattern(text: string): string | null {
  const typed = text.trim();
  return typed === "" ? null : typed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function Row({ tensor, isChosen }: { readonly tensor: TensorEntry; readonly isChosen: boolean }): JSX.Element {
  return (
    <button
      type="button"
      class="debug-tensor"
      aria-pressed={isChosen}
      title={shownName(tensor.name)}
      onClick={() => chooseTensor(tensor.name)}
    >
      <span class="debug-tensor-name">
        <span class={`debug-kind kind-${tensor.kind}`}>{kindWords(tensor.kind)}</span>
        <bdi>{shownName(tensor.of)}</bdi>
      </span>
      <span class="faint">
        {shapeWords(tensor.shape)} {tensor.dtype}, {formatBytes(tensor.bytes)}
      </span>
    </button>
  );
}
