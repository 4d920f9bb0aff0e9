import { fitted, panned, zoomed } from "../../lib/graph-camera";
import { boxBeside, type Direction } from "../../lib/graph-hit";
import type { GraphState } from "./graph-state";

const DIRECTIONS: ReadonlyMap<string, Direction> = new Map([
  ["ArrowUp", "up"],
  ["ArrowDown", "down"],
  ["ArrowLeft", "left"],
  ["ArrowRight", "right"],
]);

/** What a key does while the canvas has the focus; false: it is somebody else's. */
export function graphKey(event: KeyboardEvent, state: GraphState): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const direction = DIRECTIONS.get(event.key);
  if (direction) return go(state, direction, event.shiftKey);
  const selected = state.selected.peek();
  if ((event.key === "Enter" || event.key === " ") && selected !== null) state.toggle(selected);
  else if (event.key === "+" || event.key === "=") zoom(state, 1.3);
  else if (event.key === "-") zoom(state, 1 / 1.3);
  else if (event.key === "0") state.camera.value = fitted(state.scene.peek(), state.screen.peek());
  else if (event.key === "Home") goTo(state, 0);
  else if (event.key === "End") goTo(state, state.scene.peek().boxes.length - 1);
  else if (event.key === "Escape" && selected !== null) state.selected.value = null;
  else return false;
  return true;
}

function go(state: GraphState, direction: Direction, isPan: boolean): boolean {
  const camera = state.camera.peek();
  if (!camera) return false;
  if (isPan) {
    const by = { up: [0, 80], down: [0, -80], left: [80, 0], right: [-80, 0] }[direction];
    state.move(panned(camera, by[0] ?? 0, by[1] ?? 0));
    return true;
  }
  const scene = state.scene.peek();
  const from = scene.byItem.get(state.selected.peek() ?? -1);
  const next = from ? boxBeside(scene, from, direction) : scene.boxes[0];
  if (next) state.select(next.item.id);
  return true;
}

function goTo(state: GraphState, place: number): void {
  const box = state.scene.peek().boxes[place];
  if (box) state.select(box.item.id);
}

function zoom(state: GraphState, factor: number): void {
  const camera = state.camera.peek();
  const { width, height } = state.screen.peek();
  if (camera) state.move(zoomed(camera, { x: width / 2, y: height / 2 }, factor));
}
