/** Tells the calls of one module apart, from the order in which the edges were recorded. */

import type { GraphEdge } from "../wire/types";

/** A loop over time steps may call a module thousands of times; so many calls are drawn. */
const MOST_CALLS = 16;

export interface Calls {
  /** For each edge: which call it leaves and which call it enters, from 0. */
  readonly ends: readonly (readonly [number, number])[];
  /** How many calls could be told apart, for modules with more than one. */
  readonly counts: ReadonlyMap<string, number>;
}

interface Progress {
  call: number;
  wasEntered: boolean;
  wasLeft: boolean;
}

/** Edges are recorded when a module is entered, so an edge into a module whose output was already used belongs to
 * its next call. `calls` says of which modules calls are to be told apart, and how many there were. */
export function callsOf(edges: readonly GraphEdge[], calls: ReadonlyMap<string, number>): Calls {
  const progress = new Map<string, Progress>();
  const ends = edges.map((edge): readonly [number, number] => {
    const source =
      edge.source === edge.target ? leaveForItself(progress.get(edge.source)) : leave(progress.get(edge.source));
    return [source, enter(edge.target, progress, calls)];
  });
  const counts = new Map([...progress].filter(([, { call }]) => call > 0).map(([name, { call }]) => [name, call + 1]));
  return { ends, counts };
}

function leave(module: Progress | undefined): number {
  if (!module) return 0;
  module.wasLeft = true;
  return module.call;
}

function leaveForItself(module: Progress | undefined): number {
  if (!module) return 0;
  // Beside another edge into the same call, as where a block adds its input to its result: from the call before.
  if (module.call > 0 && module.wasEntered && !module.wasLeft) return module.call - 1;
  return leave(module);
}

function enter(name: string, progress: Map<string, Progress>, calls: ReadonlyMap<string, number>): number {
  const most = Math.min(calls.get(name) ?? 1, MOST_CALLS);
  if (most < 2) return 0;
  const module = progress.get(name) ?? { call: 0, wasEntered: false, wasLeft: false };
  progress.set(name, module);
  if (module.wasLeft && module.call + 1 < most) {
    module.call += 1;
    module.wasLeft = false;
  }
  module.wasEntered = true;
  return module.call;
}
