/** The crosshair that charts share, and the one that the arrow keys move. */

interface Movable {
  readonly element: Element;
  /** Moves the crosshair by so many points; false when there is nothing to move along. */
  readonly move: (points: number) => boolean;
}

const charts = new Set<Movable>();
let latest: Movable | null = null;

/** Makes a chart reachable for the arrow keys; returns how to take it out. */
export function registerCursor(chart: Movable): () => void {
  charts.add(chart);
  return () => {
    charts.delete(chart);
    if (latest === chart) latest = null;
  };
}

/** The chart that was last pointed at is the one that the keys move. */
export function rememberCursor(chart: Movable): void {
  latest = chart;
}

export function moveCursor(points: number): boolean {
  const target = latest ?? [...charts].find((chart) => isInSight(chart.element));
  return target?.move(points) ?? false;
}

function isInSight(element: Element): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < window.innerHeight;
}
