/**
 * Finds where outputs of several modules are joined outside of modules.
 *
 * A sum is no module, so the recording says of each layer behind a residual stream that it reads the embedding and
 * everything that was added since: lines from everywhere to everywhere. But what layer 3 reads is what layer 2 read
 * and one thing more. With a join for each such set the lines follow the stream again.
 */

/** `target` reads `source` in its input with this number; in the order of recording. */
export interface Reading {
  readonly source: number;
  readonly target: number;
  readonly input: number;
}

/** Outputs that are read together. What is joined: the join before it, if any, and what was added. */
export interface Join {
  readonly base: Join | null;
  readonly added: readonly number[];
  readonly members: ReadonlySet<number>;
  /** Who reads it first. */
  readonly reader: number;
  /** Several read it, or it is the base of another; else its lines may go to its reader as they are. */
  isShared: boolean;
}

export interface Joined {
  /** For each reading the join that it is part of, null: it reads its source alone. */
  readonly joinOf: readonly (Join | null)[];
  /** In the order of recording; bases come before what is built on them. */
  readonly joins: readonly Join[];
}

/** Sets are compared with so many before them: a stream is usually continued at once. */
const MEMORY = 64;

export function joinsOf(readings: readonly Reading[]): Joined {
  const groups = new Map<string, number[]>();
  for (const [place, { target, input }] of readings.entries()) {
    const key = `${target} ${input}`;
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(place);
  }
  const found = new Map<string, Join>();
  const recent: Join[] = [];
  const joinOf = new Array<Join | null>(readings.length).fill(null);
  for (const places of groups.values()) {
    const members = new Set(places.map((place) => readings[place]?.source ?? -1));
    const reader = readings[places[0] ?? 0]?.target ?? -1;
    if (members.size < 2 || members.has(reader)) continue;
    const join = takeUp(members, reader, found, recent);
    for (const place of places) joinOf[place] = join;
  }
  return { joinOf, joins: [...found.values()] };
}

function takeUp(members: ReadonlySet<number>, reader: number, found: Map<string, Join>, recent: Join[]): Join {
  const key = [...members].sort((a, b) => a - b).join();
  const known = found.get(key);
  if (known) {
    known.isShared = true;
    return known;
  }
  const base = largestWithin(members, recent);
  if (base) base.isShared = true;
  const added = [...members].filter((member) => !base?.members.has(member));
  const join: Join = { base, added, members, reader, isShared: false };
  found.set(key, join);
  recent.unshift(join);
  recent.length = Math.min(recent.length, MEMORY);
  return join;
}

function largestWithin(members: ReadonlySet<number>, joins: readonly Join[]): Join | null {
  let best: Join | null = null;
  for (const join of joins) {
    // Nothing can be larger than all but one; mostly the latest is.
    if (best && best.members.size === members.size - 1) break;
    const isLarger = join.members.size < members.size && join.members.size > (best?.members.size ?? 0);
    if (isLarger && [...join.members].every((member) => members.has(member))) best = join;
  }
  return best;
}
