/** Requests that change something. They carry the token that came with the page, and are refused without it. */

import { send } from "./http";

type Json = Readonly<Record<string, unknown>>;

/** null: nobody controls trainings from here; a request would say why. */
export function pageToken(): string | null {
  return document.querySelector<HTMLMetaElement>("meta[name=netdebug-token]")?.content ?? null;
}

/** Throws RequestError with a sentence. */
export async function post(path: string, value: Json, token: string | null = pageToken()): Promise<Json> {
  const headers = { "Content-Type": "application/json", "X-NetDebug-Token": token ?? "" };
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(value) });
  return (await response.json()) as Json;
}
