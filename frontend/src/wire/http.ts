/** Requests with errors that a person can read. URLs are relative: TensorBoard may live under any prefix. */

export class RequestError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Without it the server answers little: pages of other sites cannot send it. */
export const OWN_HEADER = { "X-NetDebug": "1" };

export function get(path: string, signal?: AbortSignal): Promise<Response> {
  return send(path, signal ? { signal } : {});
}

export interface Sent extends RequestInit {
  readonly headers?: Readonly<Record<string, string>>;
}

export async function send(path: string, request: Sent): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...request, headers: { ...OWN_HEADER, ...request.headers } });
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new RequestError("TensorBoard is not responding. Is it still running?", 0);
  }
  if (!response.ok) throw new RequestError(await reason(response), response.status);
  return response;
}

/** By how many seconds the clock here is ahead of the server's, of which an answer tells the time. */
export function clockLead(response: Response): number {
  const told = Date.parse(response.headers.get("Date") ?? "");
  return Number.isFinite(told) ? (Date.now() - told) / 1000 : 0;
}

export async function getJson(path: string, signal?: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  return (await (await get(path, signal)).json()) as Readonly<Record<string, unknown>>;
}

async function reason(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: unknown };
    if (typeof body.error === "string") return body.error;
  } catch {
    // No JSON: somebody else's error page, of which the status is all we can tell.
  }
  return `TensorBoard answered with status ${response.status}.`;
}
