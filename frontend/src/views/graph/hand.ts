import { panned, toScene, zoomed, type Camera } from "../../lib/graph-camera";
import { boxAt, heldTitleAt, lineAt, titleHeight, titleTop } from "../../lib/graph-hit";
import { isContainer } from "../../lib/graph-tree";
import type { GraphState, Hovered } from "./graph-state";
import { mapPlace, mapPoint } from "./paint-map";
import { SIZES } from "./sizes";

interface Point {
  readonly x: number;
  readonly y: number;
}

/** A hand that clicks is never quite still. */
const STILL_PIXELS = 4;
const WHEEL_SPEED = 0.0022;
const DOUBLE_CLICK_MILLISECONDS = 350;

/** Mouse, fingers and wheel on the canvas: dragging moves the picture, two fingers zoom, a click selects. */
export class Hand {
  private readonly fingers = new Map<number, Point>();
  private start: Point | null = null;
  private isMoving = false;
  private isOnMap = false;
  private lastClick = { time: 0, id: -1 };

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly state: GraphState,
  ) {}

  listen(): () => void {
    const stop = new AbortController();
    const on = <Type extends keyof HTMLElementEventMap>(
      type: Type,
      act: (event: HTMLElementEventMap[Type]) => void,
    ): void => this.canvas.addEventListener(type, act, { signal: stop.signal, passive: false });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.moveTo(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.forget(event));
    on("pointerleave", () => (this.state.hovered.value = null));
    on("wheel", (event) => this.turn(event));
    return () => stop.abort();
  }

  private at(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.at(event);
    this.fingers.set(event.pointerId, at);
    this.start = this.fingers.size === 1 ? at : null;
    this.isMoving = false;
    this.isOnMap = this.fingers.size === 1 && this.goByMap(at, true);
  }

  private moveTo(event: PointerEvent): void {
    const at = this.at(event);
    const before = this.fingers.get(event.pointerId);
    if (!before) {
      if (this.fingers.size === 0) this.hover(at);
      return;
    }
    const others = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.fingers.set(event.pointerId, at);
    const camera = this.state.camera.peek();
    if (!camera) return;
    if (this.isOnMap) this.goByMap(at, false);
    else if (others) this.pinch(camera, before, at, others);
    else this.drag(camera, before, at);
  }

  private drag(camera: Camera, before: Point, at: Point): void {
    const from = this.start ?? before;
    const wasMoving = this.isMoving;
    this.isMoving ||= Math.hypot(at.x - from.x, at.y - from.y) > STILL_PIXELS;
    if (!this.isMoving) return;
    const last = wasMoving ? before : from;
    this.state.move(panned(camera, at.x - last.x, at.y - last.y));
  }

  private pinch(camera: Camera, before: Point, at: Point, other: Point): void {
    const size = (a: Point): number => Math.max(Math.hypot(a.x - other.x, a.y - other.y), 12);
    const centre = { x: (at.x + other.x) / 2, y: (at.y + other.y) / 2 };
    const moved = panned(camera, (at.x - before.x) / 2, (at.y - before.y) / 2);
    this.isMoving = true;
    this.state.move(zoomed(moved, centre, size(at) / size(before)));
  }

  private up(event: PointerEvent): void {
    const wasDown = this.fingers.delete(event.pointerId);
    if (wasDown && !this.isMoving && !this.isOnMap && this.fingers.size === 0)
      this.click(this.at(event), event.timeStamp);
    // The finger that stays goes on dragging from where it is.
    this.start = [...this.fingers.values()][0] ?? null;
    if (this.fingers.size === 0) [this.isMoving, this.isOnMap] = [false, false];
  }

  private forget(event: PointerEvent): void {
    this.fingers.delete(event.pointerId);
    this.isMoving = this.isOnMap = false;
  }

  private click(at: Point, time: number): void {
    const hit = this.hit(at);
    const id = hit?.kind === "box" ? hit.id : -1;
    const isDouble = id >= 0 && id === this.lastClick.id && time - this.lastClick.time < DOUBLE_CLICK_MILLISECONDS;
    this.lastClick = { time, id };
    const item = this.state.item(id);
    if (!item) this.state.selected.value = null;
    else if (isContainer(item) && (isDouble || this.isOnCaret(at, id))) this.state.toggle(id);
    else this.state.selected.value = id;
  }

  /** The right end of a closed box and the left end of a frame's title, where the arrows are. */
  private isOnCaret(at: Point, id: number): boolean {
    const box = this.state.scene.peek().byItem.get(id);
    const camera = this.state.camera.peek();
    if (!box || !camera) return false;
    const { x, y } = toScene(camera, at.x, at.y);
    if (!box.isOpen) return x > box.x + box.width - 44;
    // A title is held in sight, and its arrow with it.
    const left = Math.max(box.x, camera.x);
    return x < left + 30 && y < titleTop(box, camera, SIZES.title) + titleHeight(camera, SIZES.title);
  }

  private hover(at: Point): void {
    const next = this.hit(at);
    const now = this.state.hovered.peek();
    const isSame =
      next?.kind === now?.kind &&
      (next?.kind === "box"
        ? now?.kind === "box" && next.id === now.id
        : next?.kind !== "line" || (now?.kind === "line" && next.line === now.line));
    if (!isSame) this.state.hovered.value = next;
  }

  private hit(at: Point): Hovered {
    const [camera, scene] = [this.state.camera.peek(), this.state.scene.peek()];
    if (!camera || mapHit(this.state, at)) return null;
    const { x, y } = toScene(camera, at.x, at.y);
    const held = heldTitleAt(scene, camera, SIZES.title, x, y);
    if (held) return { kind: "box", id: held.item.id };
    const box = boxAt(scene, x, y);
    const line = lineAt(scene, x, y, 5 / camera.scale);
    if (box && !box.isOpen) return { kind: "box", id: box.item.id };
    if (line) return { kind: "line", line };
    return box ? { kind: "box", id: box.item.id } : null;
  }

  private turn(event: WheelEvent): void {
    const camera = this.state.camera.peek();
    if (!camera) return;
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const [across, down] = event.shiftKey && event.deltaX === 0 ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    // A pinch on a touch pad comes as a wheel with the control key.
    if (event.ctrlKey || event.metaKey)
      this.state.move(
        zoomed(
          camera,
          this.at(event),
          Math.exp(-event.deltaY * unit * WHEEL_SPEED * (Math.abs(event.deltaY) < 30 ? 4 : 1)),
        ),
      );
    else this.state.move(panned(camera, -across * unit, -down * unit));
  }

  private goByMap(at: Point, mustHit: boolean): boolean {
    const { camera, scene, screen } = this.state;
    const now = camera.peek();
    const place = now && mapPlace(scene.peek(), now, screen.peek());
    if (!now || !place || (mustHit && !mapHit(this.state, at))) return false;
    const { x, y } = mapPoint(place, at.x, at.y);
    const seen = screen.peek();
    this.state.move({ ...now, x: x - seen.width / now.scale / 2, y: y - seen.height / now.scale / 2 });
    return true;
  }
}

function mapHit(state: GraphState, at: Point): boolean {
  const camera = state.camera.peek();
  const place = camera && mapPlace(state.scene.peek(), camera, state.screen.peek());
  return Boolean(
    place && at.x >= place.x && at.x <= place.x + place.width && at.y >= place.y && at.y <= place.y + place.height,
  );
}
