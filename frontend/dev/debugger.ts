/** The debugger's routes with made-up trainings: NETDEBUG_TRAININGS=0 shows the page without any. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { npyOf } from "./debugged-tensors";
import { MadeTraining, Refused } from "./debugged";

type Json = Record<string, unknown>;

const CANNOT = ["Operations cannot be stepped in a model that is compiled."];
const LISTENERS = new Set<(data: unknown) => void>();
const holders = new Map<string, { client: string; label: string }>();
const attended = new Map<string, { at: number; sessions: string[] }>();
let trainings: MadeTraining[] | null = null;

function all(): MadeTraining[] {
  trainings ??= Number(process.env["NETDEBUG_TRAININGS"] ?? 3) === 0 ? [] : makeTrainings();
  return trainings;
}

function makeTrainings(): MadeTraining[] {
  const facts = (run: string[], rank: number, world_size: number, group: string): Json => ({
    run,
    rank,
    world_size,
    group,
    pid: 4242 + rank,
    host: "lab-3",
    program: "train.py",
    framework: "torch 2.13",
    models: { model: "ResNet" },
    can: ["batch", "layer", "backward", "optimizer"],
    cannot: CANNOT,
    collective_timeout_secs: world_size > 1 ? 600 : null,
  });
  return [
    new MadeTraining("made-0", facts(["resnet", "baseline"], 0, 2, "g1"), tell, true),
    new MadeTraining("made-1", facts(["resnet", "baseline"], 1, 2, "g1"), tell, true),
    new MadeTraining("made-2", facts(["elsewhere", "<b>bold</b>"], 0, 1, "g2"), tell, false),
  ];
}

function tell(training: MadeTraining): void {
  for (const listener of LISTENERS) listener(entryOf(training));
}

/** Calls `listener` with each event; returns how to stop. */
export function onDebuggerNews(listener: (data: unknown) => void): () => void {
  LISTENERS.add(listener);
  return () => LISTENERS.delete(listener);
}

function entryOf(training: MadeTraining): Json {
  const looking = [...attended.keys()].filter((client) => isLooking(client, training));
  const holder = holderOf(training);
  const { key, facts, state } = training;
  return { key, session: facts, state, holder, clients: looking.length, is_connected: true };
}

function isLooking(client: string, training: MadeTraining): boolean {
  const seen = attended.get(client);
  return seen !== undefined && Date.now() - seen.at < 10_000 && seen.sessions.includes(training.key);
}

/** Who has left holds nothing. */
function holderOf(training: MadeTraining): { client: string; label: string } | null {
  const holder = holders.get(training.key);
  return holder && isLooking(holder.client, training) ? holder : null;
}

function sessions(): Json {
  return { epoch: "made-up", sessions: all().map(entryOf) };
}

/** Answers the routes below `debugger/`. */
export async function answerDebugger(route: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (route === "sessions") return json(response, 200, sessions());
  let text = "";
  for await (const piece of request) text += String(piece);
  const body = JSON.parse(text) as Json;
  if (route === "attend") return json(response, 200, attend(body));
  const training = all().find((each) => each.key === body["session"]);
  if (!training) return json(response, 404, { error: "There is no such training." });
  try {
    if (route === "tensor") {
      const file = npyOf(training.tensor(body["name"]), body["slice"] as string | null, training.step);
      response.setHeader("Content-Type", "application/octet-stream");
      response.end(file);
    } else json(response, 200, { value: called(training, body) });
  } catch (error) {
    const status = error instanceof Refused ? 422 : 400;
    json(response, status, { error: error instanceof Error ? error.message : String(error) });
  }
}

const STEERING = /^(pause|continue|step|run_to|set_|remove_|recheck|clear_|snapshot|detach)/;

function called(training: MadeTraining, body: Json): unknown {
  const verb = String(body["verb"]);
  const client = String(body["client"]);
  const holder = holderOf(training);
  if (STEERING.test(verb) && holder && holder.client !== client) {
    throw new Refused(`${holder.label} holds the controls.`);
  }
  if (STEERING.test(verb)) hold(training, client, labels.get(client) ?? "");
  const given = body["arguments"] as Json;
  const others = STEERING.test(verb) ? all().filter((each) => each !== training && isTogether(each, training)) : [];
  for (const each of others) each.answer(verb, given);
  return training.answer(verb, given);
}

/** Ranks of one training pause and go on together. */
function isTogether(a: MadeTraining, b: MadeTraining): boolean {
  return a.facts["group"] === b.facts["group"];
}

const labels = new Map<string, string>();

function hold(training: MadeTraining, client: string, label: string): void {
  for (const each of all()) if (isTogether(each, training)) holders.set(each.key, { client, label });
}

function attend({ client, label, sessions: keys, take, release }: Json): Json {
  labels.set(String(client), String(label));
  attended.set(String(client), { at: Date.now(), sessions: keys as string[] });
  for (const training of all()) {
    if (training.key === take) hold(training, String(client), String(label));
    const holder = holders.get(training.key);
    if (training.key === release) holders.delete(training.key);
    else if (holder && holder.client === client) holders.set(training.key, { ...holder, label: String(label) });
  }
  return sessions();
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(value));
}
