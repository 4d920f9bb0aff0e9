/** What pointers mean on a chart: hovering, a click, a drag across, or two fingers that pinch. Knows no events. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

export type Gesture =
  | { readonly kind: "hover"; readonly at: Point }
  | { readonly kind: "click"; readonly at: Point }
  | { readonly kind: "dragging"; readonly from: Point; readonly to: Point }
  | { readonly kind: "dragged"; readonly from: Point; readonly to: Point }
  /** `factor` below 1 shows less; `by` is how far the fingers went together, in pixels to the right. */
  | { readonly kind: "pinch"; readonly at: Point; readonly factor: number; readonly by: number }
  | { readonly kind: "none" };

/** A hand that clicks is never quite still. */
const STILL_PIXELS = 5;
const NONE: Gesture = { kind: "none" };

export class Gestures {
  private readonly pointers = new Map<number, Point>();
  private start: Point | null = null;
  private moving = false;
  private pinched = false;

  down(id: number, at: Point): Gesture {
    this.pointers.set(id, at);
    if (this.pointers.size === 1) [this.start, this.moving, this.pinched] = [at, false, false];
    else [this.start, this.pinched] = [null, true];
    return NONE;
  }

  move(id: number, at: Point): Gesture {
    if (!this.pointers.has(id)) return this.pointers.size === 0 ? { kind: "hover", at } : NONE;
    const before = [...this.pointers.values()];
    this.pointers.set(id, at);
    if (this.pointers.size > 1) return pinch(before, [...this.pointers.values()]);
    if (this.start === null) return NONE;
    this.moving ||= Math.hypot(at.x - this.start.x, at.y - this.start.y) > STILL_PIXELS;
    return this.moving ? { kind: "dragging", from: this.start, to: at } : NONE;
  }

  up(id: number, at: Point): Gesture {
    if (!this.pointers.delete(id)) return NONE;
    const start = this.start;
    if (this.pointers.size > 0 || start === null || this.pinched) return NONE;
    this.start = null;
    return this.moving ? { kind: "dragged", from: start, to: at } : { kind: "click", at };
  }

  /** The system took the pointer away, to scroll for example. */
  cancel(id: number): Gesture {
    this.pointers.delete(id);
    this.start = null;
    return NONE;
  }
}

function pinch(before: readonly Point[], after: readonly Point[]): Gesture {
  const [a, b] = [span(before), span(after)];
  // Fingers that meet would zoom without end.
  const factor = Math.max(a.size, 10) / Math.max(b.size, 10);
  return { kind: "pinch", at: b.centre, factor, by: b.centre.x - a.centre.x };
}

function span(points: readonly Point[]): { centre: Point; size: number } {
  const [a, b] = [points[0] ?? { x: 0, y: 0 }, points[1] ?? { x: 0, y: 0 }];
  return { centre: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }, size: Math.hypot(a.x - b.x, a.y - b.y) };
}
