/** From what JSON.parse gives to the types of types.ts. Non-finite numbers travel as strings. */

import type { GraphData, RunDetails, RunList, RunRow } from "./types";

type Json = Readonly<Record<string, unknown>>;

const NO_COLLECTOR = { address: null, trouble: null };

/** A number as it travels; NaN for whatever else it may be. */
export function number(value: unknown): number {
  if (typeof value === "number") return value;
  return value === "Infinity" ? Infinity : value === "-Infinity" ? -Infinity : NaN;
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function optional(value: unknown): number | null {
  return value === null || value === undefined ? null : number(value);
}

export function parseRunRow(json: Json): RunRow {
  // Everything but the loss is finite by the server's word.
  const row = json as unknown as RunRow;
  // An older server, which a page may meet after an update, knows nothing of the last three.
  const { ending = null, late = null, reason = null } = row;
  return { ...row, loss: optional(json["loss"]), ending, late, reason };
}

export function parseRunList(json: Json): RunList {
  const rows = Array.isArray(json["runs"]) ? (json["runs"] as Json[]) : [];
  const list = json as unknown as RunList;
  return { ...list, collector: list.collector ?? NO_COLLECTOR, runs: rows.map(parseRunRow) };
}

/** A row as the live stream brings it; null for anything else. */
export function parseRunNews(data: unknown): RunRow | null {
  const json = (data ?? {}) as Json;
  const name = json["run"];
  return typeof name === "string" ? parseRunRow({ ...json, name }) : null;
}

export function parseRunDetails(json: Json): RunDetails {
  const ranks = Array.isArray(json["ranks"]) ? (json["ranks"] as number[]) : [0];
  return {
    ...(json as unknown as RunDetails),
    ...parseRunRow(json),
    // In a row `ranks` is a number, in the details the list of them.
    ranks: ranks.length,
    rank_list: ranks,
    overhead: optional(json["overhead"]),
    sampled_every: optional(json["sampled_every"]),
    endings: Array.isArray(json["endings"]) ? (json["endings"] as RunDetails["endings"]) : [],
    processes: Array.isArray(json["processes"]) ? (json["processes"] as RunDetails["processes"]) : [],
  };
}

export function parseGraph(json: Json): GraphData {
  return json as unknown as GraphData;
}
