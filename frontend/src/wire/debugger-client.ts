/** The debugger's routes. All throw RequestError with a sentence. */

import { getJson } from "./http";
import { postAgain } from "./control";
import { parseSessions } from "./debugger-json";
import type { DebuggerSessions } from "./debugger-types";

type Json = Readonly<Record<string, unknown>>;

export async function fetchSessions(): Promise<DebuggerSessions> {
  return parseSessions(await getJson("debugger/sessions"));
}

export interface Attendance {
  readonly client: string;
  readonly label: string;
  readonly sessions: readonly string[];
  readonly take: string | null;
  readonly release: string | null;
}

/** Says who looks at which sessions, which keeps a paused training paused. */
export async function attend(attendance: Attendance): Promise<DebuggerSessions> {
  const response = await postAgain("debugger/attend", { ...attendance });
  return parseSessions((await response.json()) as Json);
}

/** What a verb answers. */
export async function call(client: string, session: string, verb: string, given: Json): Promise<unknown> {
  const response = await postAgain("debugger/call", { client, session, verb, arguments: given });
  return ((await response.json()) as Json)["value"];
}

export interface WantedTensor {
  readonly client: string;
  readonly session: string;
  readonly name: string;
  readonly slice: string | null;
}

/** The tensor as .npy, which may come in many pieces; `come` is told how many bytes there are so far. */
export async function fetchTensor(
  { client, session, name, slice }: WantedTensor,
  come: (bytes: number) => void = () => undefined,
): Promise<Blob> {
  const response = await postAgain("debugger/tensor", { client, session, name, slice });
  const reader = response.body?.getReader();
  if (!reader) return response.blob();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(pieces, { type: "application/octet-stream" });
    pieces.push(value);
    bytes += value.byteLength;
    come(bytes);
  }
}
