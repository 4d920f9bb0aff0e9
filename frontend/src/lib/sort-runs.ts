/** Orders of the list of runs. */

interface Sortable {
  readonly name: string;
  readonly started: number;
  readonly loss: number | null;
  readonly steps: number | null;
}

const names = new Intl.Collator("en", { numeric: true });

/** A run without the number that is sorted by, or with NaN, comes last. */
export function sortRuns<Run extends Sortable>(
  runs: readonly Run[],
  order: "newest" | "name" | "loss" | "steps",
): readonly Run[] {
  const byName = (a: Run, b: Run): number => names.compare(a.name, b.name);
  const by = {
    newest: (a: Run, b: Run): number => b.started - a.started,
    name: byName,
    loss: (a: Run, b: Run): number => compare(a.loss ?? NaN, b.loss ?? NaN),
    steps: (a: Run, b: Run): number => compare(-(a.steps ?? NaN), -(b.steps ?? NaN)),
  }[order];
  return [...runs].sort((a, b) => by(a, b) || byName(a, b));
}

function compare(a: number, b: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return a - b;
}
