/** Which runs are drawn when nobody has chosen any. */

export interface Choice {
  readonly chosen: readonly string[];
  readonly focus: string | null;
  readonly byUser: boolean;
}

interface Candidate {
  readonly name: string;
  readonly started: number;
  readonly state: string;
}

/** More lines than that in one chart are a tangle. */
const MOST = 6;

/** The runs that train now, else the newest few; a focus that is there stays. */
export function firstChoice(runs: readonly Candidate[], present: Choice): Choice {
  const there = new Set(runs.map((run) => run.name));
  const newest = [...runs].sort(
    (a, b) => Number(b.state === "live") - Number(a.state === "live") || b.started - a.started,
  );
  const live = newest.filter((run) => run.state === "live");
  const picked = (live.length > 0 ? live : newest.slice(0, 4)).slice(0, MOST).map((run) => run.name);
  // Once drawn, a run stays: a picture that changes when a training ends would take away what one looks at.
  const kept = present.chosen.filter((name) => there.has(name));
  const joined = [...kept, ...picked.filter((name) => !kept.includes(name))].slice(0, Math.max(MOST, kept.length));
  const found = present.byUser ? present.chosen : kept.length === 0 ? picked : live.length > 0 ? joined : kept;
  const focus = present.focus !== null && (there.has(present.focus) || runs.length === 0) ? present.focus : null;
  // A link to a run shows that run, also when others are newer.
  const isLeftOut = !present.byUser && focus !== null && there.has(focus) && !found.includes(focus);
  const chosen = isLeftOut ? [focus, ...found].slice(0, MOST) : found;
  return { ...present, chosen, focus: focus ?? chosen.find((name) => there.has(name)) ?? newest[0]?.name ?? null };
}
