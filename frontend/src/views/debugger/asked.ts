/** What a paused training tells of itself, asked again at each stop where it rests. */

import { effect, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { entry, sentence } from "../../app/debugger";
import { attending } from "../../app/debugger-attendance";
import { clientId } from "../../app/debugger-client";
import { call } from "../../wire/debugger-client";
import { RequestError } from "../../wire/http";
import type { DebuggerEntry } from "../../wire/debugger-types";

type Json = Readonly<Record<string, unknown>>;

/** Steps that follow each other faster than this are not looked at one by one. */
const REST_MILLISECONDS = 100;

/** The stop that is looked at; null while the training runs. */
export const stop = signal<string | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;
let changedAt = -Infinity;
let newest: string | null = null;

effect(() => {
  const found = stopOf(entry.value);
  if (found === newest) return;
  newest = found;
  clearTimeout(timer);
  const isFast = performance.now() - changedAt < REST_MILLISECONDS;
  changedAt = performance.now();
  // The first of many is shown at once: a person waits for it.
  if (isFast) timer = setTimeout(() => (stop.value = found), REST_MILLISECONDS);
  else stop.value = found;
});

function stopOf(found: DebuggerEntry | null): string | null {
  if (found?.state.status !== "paused" || !found.is_connected) return null;
  const { step, place, paused_at } = found.state;
  return JSON.stringify([found.key, step, place?.phase, place?.number, paused_at]);
}

export async function ask(session: string, verb: string, given: Json): Promise<unknown> {
  await attending(session);
  return call(clientId(), session, verb, given);
}

export interface Asked<Value> {
  readonly value: Value | null;
  readonly error: string | null;
  /** It is of a stop before, or of another question. */
  readonly isOld: boolean;
}

interface Answer<Value> {
  readonly value: Value | null;
  readonly error: string | null;
  readonly session: string | null;
  readonly to: string;
}

/** No answer has come in time, or the training had too many to give: it may have one a moment later. */
const MAY_COME = new Set([0, 503, 504]);
const RETRY_MILLISECONDS = 1000;

const NO_ANSWER = { value: null, error: null, session: null, to: "" };

/** null asks nothing. With `once` one answer does for as long as the session lives, also while it runs. */
export function useAsked<Value>(
  verb: string,
  given: Json | null,
  parse: (value: unknown) => Value,
  { once = false }: { readonly once?: boolean } = {},
): Asked<Value> {
  const [answer, setAnswer] = useState<Answer<Value>>(NO_ANSWER);
  const [failures, setFailures] = useState(0);
  const session = entry.value?.is_connected ? entry.value.key : null;
  const at = stop.value;
  const question = JSON.stringify([verb, given, session]);
  const isKnown = once && answer.value !== null && answer.to === question;
  const moment = once ? (isKnown ? "known" : `${at}`) : at;
  useEffect(() => {
    if (given === null || session === null || isKnown || (at === null && !once)) return;
    let isStale = false;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const to = once ? question : question + at;
    ask(session, verb, given).then(
      (value) => isStale || setAnswer({ value: parse(value), error: null, session, to }),
      (error: unknown) => {
        if (isStale) return;
        setAnswer((last) => ({ ...last, error: sentence(error), session }));
        if (error instanceof RequestError && MAY_COME.has(error.status))
          retry = setTimeout(() => setFailures(failures + 1), RETRY_MILLISECONDS);
      },
    );
    return () => {
      isStale = true;
      clearTimeout(retry);
    };
  }, [question, moment, failures]);
  const isOurs = session === null || answer.session === session;
  const to = once ? question : question + at;
  return isOurs ? { value: answer.value, error: answer.error, isOld: answer.to !== to } : { ...NO_ANSWER, isOld: true };
}
