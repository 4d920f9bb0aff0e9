/** One level of the picture: boxes in layers with lines between them, no box over another. */

import { type Box, LayeredLevel, type Line, type Net, type Size } from "./graph-level";
import { pairsOf } from "./graph-ways";

export interface Layout {
  readonly width: number;
  readonly height: number;
  /** Left upper corners. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly lines: readonly Line[];
}

const SPACE_BETWEEN_LOOSE = 20;

export function layoutOf(boxes: readonly Box[], nets: readonly Net[]): Layout {
  const pairs = pairsOf(nets);
  const isTied = new Uint8Array(boxes.length);
  for (const { source, target } of pairs) isTied[source] = isTied[target] = 1;
  const grid = new LayeredLevel(boxes, nets, isTied);
  const [x, y] = [new Float64Array(boxes.length), new Float64Array(boxes.length)];
  const tied = grid.place(x, y);
  const loose = boxes.flatMap((_, box) => (isTied[box] ? [] : [box]));
  const left = tied.width > 0 && loose.length > 0 ? tied.width + 2 * SPACE_BETWEEN_LOOSE : tied.width;
  const rest = placeLoose(loose, boxes, x, y, left, tied.height);
  return {
    width: Math.max(tied.width, rest.width),
    height: Math.max(tied.height, rest.height),
    x,
    y,
    lines: grid.lines(),
  };
}

/** What is connected with nothing stands beside the rest, in columns. */
function placeLoose(
  loose: readonly number[],
  boxes: readonly Box[],
  x: Float64Array,
  y: Float64Array,
  left: number,
  room: number,
): Size {
  const area = loose.reduce((sum, box) => sum + ((boxes[box]?.width ?? 0) + 20) * ((boxes[box]?.height ?? 0) + 20), 0);
  const most = Math.max(room, Math.sqrt(area) * 0.9);
  let [atX, atY, columnWidth, height] = [left, 0, 0, 0];
  for (const box of loose) {
    const size = boxes[box] ?? { width: 0, height: 0 };
    if (atY > 0 && atY + size.height > most) {
      atX += columnWidth + SPACE_BETWEEN_LOOSE;
      [atY, columnWidth] = [0, 0];
    }
    x[box] = atX;
    y[box] = atY;
    atY += size.height + SPACE_BETWEEN_LOOSE;
    columnWidth = Math.max(columnWidth, size.width);
    height = Math.max(height, atY - SPACE_BETWEEN_LOOSE);
  }
  return { width: loose.length > 0 ? atX + columnWidth : left, height };
}
