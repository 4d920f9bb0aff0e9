import type { JSX } from "preact";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { CanvasBox, onSize } from "../../charts/canvas";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import { fitted, opening, panned, zoomed } from "../../lib/graph-camera";
import { plainName } from "../../lib/graph-text";
import type { GraphState, Hovered } from "./graph-state";
import { Hand } from "./hand";
import { graphKey } from "./keys";
import { drawPicture } from "./paint";
import { titleOf } from "./paint-boxes";
import { drawMap } from "./paint-map";
import type { Colours, Picture } from "./picture";
import { Hint } from "./hint";

export interface StageProps {
  readonly state: GraphState;
  readonly colours: Colours;
  readonly exportName: string;
  readonly csv: () => readonly CsvRow[];
}

/** The picture on a canvas that one can move and enlarge. */
export function Stage({ state, colours, exportName, csv }: StageProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const scene = state.scene.value;
  const camera = state.camera.value;
  const [selected, hovered] = [state.selected.value, state.hovered.value];
  useEffect(() => (place.current ? watchSize(place.current, state) : undefined), [state]);
  useEffect(() => {
    if (camera === null && state.screen.peek().width > 0) open(state);
  }, [camera, scene]);
  useEffect(() => {
    const canvas = place.current?.querySelector("canvas");
    return canvas ? new Hand(canvas, state).listen() : undefined;
  }, [state]);
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => {
      if (!camera) return;
      const picture: Picture = { tree: state.tree, scene, camera, colours, selected, hovered };
      drawPicture(context, width, height, picture, palette);
      drawMap(context, { width, height }, picture, palette);
    },
    [scene, camera, colours, selected, hovered],
  );
  const zoom = (factor: number): void => {
    const { width, height } = state.screen.peek();
    if (camera) state.move(zoomed(camera, { x: width / 2, y: height / 2 }, factor));
  };
  const names = scene.boxes.length;
  return (
    <div class="graph-stage" ref={place} data-hover={cursorOf(hovered)}>
      <CanvasBox
        draw={draw}
        label={`Module graph, ${names} boxes. Arrow keys go from box to box, Enter opens and closes, plus and minus zoom, 0 shows all. The list shows the same as text.`}
        exportName={exportName}
        csv={csv}
        onKey={(event) => graphKey(event, state)}
      />
      <div class="graph-zoom" role="group" aria-label="Zoom">
        <button
          type="button"
          class="button icon-button"
          aria-label="Zoom in"
          title="Zoom in (+)"
          onClick={() => zoom(1.4)}
        >
          +
        </button>
        <button
          type="button"
          class="button icon-button"
          aria-label="Zoom out"
          title="Zoom out (−)"
          onClick={() => zoom(1 / 1.4)}
        >
          −
        </button>
        <button type="button" class="button" title="Show the whole graph (0)" onClick={() => fit(state)}>
          Fit
        </button>
      </div>
      <Hint state={state} colours={colours} />
      <p class="unseen" role="status">
        {spoken(state, selected)}
      </p>
    </div>
  );
}

export function fit(state: GraphState): void {
  state.camera.value = fitted(state.scene.peek(), state.screen.peek());
}

function open(state: GraphState): void {
  const scene = state.scene.peek();
  const first = scene.boxes.find((box) => !box.isOpen) ?? null;
  state.camera.value = opening(scene, state.screen.peek(), first);
}

function watchSize(place: HTMLElement, state: GraphState): () => void {
  const canvas = place.querySelector("canvas") ?? place;
  const measure = (): void => {
    const { clientWidth: width, clientHeight: height } = canvas;
    // A hidden page has no height; what was seen before stays.
    if (width === 0 || height === 0) return;
    const before = state.screen.peek().width;
    state.screen.value = { width, height };
    const camera = state.camera.peek();
    if (camera === null) open(state);
    // The middle of a window that changes its width stays the middle.
    else if (before > 0 && width !== before) state.camera.value = panned(camera, (width - before) / 2, 0);
  };
  measure();
  return onSize(canvas, measure);
}

function cursorOf(hovered: Hovered): string {
  return hovered?.kind ?? "none";
}

function spoken(state: GraphState, selected: number | null): string {
  const item = state.item(selected);
  return item ? `${titleOf(state.tree, item)} ${plainName(item.module?.name ?? item.label)}` : "";
}
