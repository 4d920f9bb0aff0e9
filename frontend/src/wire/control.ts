/** Requests that change something. They carry the token that came with the page, and are refused without it. */

import { computed, signal } from "@preact/signals";
import { get, RequestError, send } from "./http";

type Json = Readonly<Record<string, unknown>>;

/** What somebody has pasted: it is kept here and nowhere else, and gone with the page. */
const pasted = signal<string | null>(null);

/** Whether trainings are controlled from here with a token that does not come with the page. */
export const needsToken = computed(() => pasted.value === null && tokenPlace()?.content === "");

/** A sentence says why it cannot be one. */
export function pasteToken(typed: string): string | null {
  const token = typed.trim();
  if (!/^[\x21-\x7e]{1,512}$/.test(token)) return "A token is one word of letters, digits and symbols.";
  pasted.value = token;
  return null;
}

/** null: nobody controls trainings from here; a request would say why. */
export function pageToken(): string | null {
  return pasted.peek() ?? (tokenPlace()?.content || null);
}

function tokenPlace(): HTMLMetaElement | null {
  return document.querySelector<HTMLMetaElement>("meta[name=netdebug-token]");
}

/** Throws RequestError with a sentence. */
export async function post(path: string, value: Json, token: string | null = pageToken()): Promise<Json> {
  return (await (await postFor(path, value, token)).json()) as Json;
}

/** The answer itself, for what is no JSON. */
export async function postFor(path: string, value: Json, token: string | null): Promise<Response> {
  const headers = { "Content-Type": "application/json", "X-NetDebug-Token": token ?? "" };
  return send(path, { method: "POST", headers, body: JSON.stringify(value) });
}

/** As `post`, but a TensorBoard that was started anew has another token, which is fetched first. */
export async function postAgain(path: string, value: Json): Promise<Response> {
  const token = pageToken();
  try {
    return await postFor(path, value, token);
  } catch (error) {
    if (!(error instanceof RequestError && error.status === 403)) throw error;
    pasted.value = null; // it was not the right one, or is not any more
    const renewed = await renewedToken();
    if (renewed === null || renewed === token) throw error;
    return postFor(path, value, renewed);
  }
}

const TOKEN = /<meta name="netdebug-token" content="([\w-]+)"/;

/** Out of our own page as TensorBoard serves it now. */
async function renewedToken(): Promise<string | null> {
  const place = tokenPlace();
  const page = await (await get(location.pathname)).text();
  const found = TOKEN.exec(page)?.[1] ?? null;
  if (found !== null && place) place.content = found;
  return found;
}
