/**
 * Stands in for TensorBoard while one works on the page: `npm run dev` serves the sources with made-up runs, and
 * made-up trainings that can be paused (none with NETDEBUG_TRAININGS=0).
 * NETDEBUG_RUNS=1000 makes more runs, NETDEBUG_LIVE=1 lets the unfinished one grow, and
 * NETDEBUG_API=http://localhost:6006/data/plugin/netdebug/ takes the data from a real TensorBoard instead.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Plugin } from "vite";
import { answerAll } from "./answers";
import { answerDebugger, onDebuggerNews } from "./debugger";
import { findingsOf } from "./findings";
import { graphOf, KINDS, seriesNames } from "./network";
import { endingOf, processesOf } from "./pulse";
import { EPOCH, makeRuns, rowOf, scalarNames, stepsOf, type MadeRun } from "./runs";

const ROUTES = new Set(["runs", "run", "graph", "columns", "live"]);
const DEBUGGER = new Set(["sessions", "attend", "call", "tensor"]);

export function madeUpData(): Plugin {
  const live = Boolean(process.env["NETDEBUG_LIVE"]);
  const runs = makeRuns(Number(process.env["NETDEBUG_RUNS"] ?? 0));
  const answer = (request: IncomingMessage, response: ServerResponse, next: () => void): void => {
    const url = new URL(request.url ?? "/", "http://localhost");
    const route = url.pathname.slice(url.pathname.lastIndexOf("/") + 1);
    const debug = /\/debugger\/(\w+)$/.exec(url.pathname)?.[1];
    if (debug !== undefined && DEBUGGER.has(debug)) void answerDebugger(debug, request, response);
    else if (ROUTES.has(route)) respond(route, url.searchParams, response, runs, live);
    else next();
  };
  return {
    name: "made-up-data",
    configureServer: (server) => void server.middlewares.use(answer),
    configurePreviewServer: (server) => void server.middlewares.use(answer),
  };
}

function respond(
  route: string,
  asked: URLSearchParams,
  response: ServerResponse,
  runs: MadeRun[],
  live: boolean,
): void {
  if (route === "live") return stream(response, runs, live);
  if (route === "columns") {
    response.setHeader("Content-Type", "application/octet-stream");
    response.end(answerAll(JSON.parse(asked.get("q") ?? "[]") as Record<string, unknown>[], runs, live));
    return;
  }
  response.setHeader("Content-Type", "application/json");
  const run = runs.find((each) => each.name === asked.get("run"));
  if (route === "runs") {
    const rows = runs.map((each) => rowOf(each, live));
    response.end(
      JSON.stringify({
        epoch: EPOCH,
        version: 1,
        logdir: "/home/ada/runs",
        complete: true,
        complaints: [],
        runs: rows,
      }),
    );
  } else if (!run) {
    response.statusCode = 404;
    response.end(JSON.stringify({ error: `There is no run ${asked.get("run")}.` }));
  } else response.end(JSON.stringify(route === "graph" ? graphOf() : details(run, live)));
}

function details(run: MadeRun, live: boolean): Record<string, unknown> {
  const series = [...KINDS, "tensor"].flatMap((kind) => seriesNames(run, kind).map((name) => ({ kind, name })));
  const row = rowOf(run, live);
  return {
    ...row,
    ranks: [0, 1],
    scalars: scalarNames(run),
    series,
    sampled_every: 10,
    overhead: 0.012,
    gap_list: [],
    has_graph: run.kind === "netdebug",
    first_time: run.started,
    last_time: row["changed"],
    findings: findingsOf(run),
    endings: endingOf(run) ? [endingOf(run)] : [],
    processes: processesOf(run, Number(row["changed"])),
    info: { torch: "2.13.0", device: "NVIDIA RTX 4090", host: "lab-3", every: "auto" },
  };
}

function stream(response: ServerResponse, runs: MadeRun[], live: boolean): void {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  const tell = (event: string, data: unknown, id: number): void =>
    void response.write(`id: ${EPOCH}-${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  tell("hello", { epoch: EPOCH, version: 1 }, 1);
  const heartbeat = setInterval(() => response.write(": still here\n\n"), 4000);
  const news = setInterval(() => {
    for (const run of live ? runs.filter((each) => each.ended === null) : []) {
      tell("run", { run: run.name, ...rowOf(run, live) }, stepsOf(run, live));
    }
  }, 200);
  const stop = onDebuggerNews((data) => tell("debugger", data, stepsOf(runs[0] as MadeRun, live)));
  response.on("close", () => {
    stop();
    clearInterval(heartbeat);
    clearInterval(news);
  });
}
