/** The pattern that stands for NaN and infinite values wherever there is no cell to stripe. */

import { wordToCss, type Theme } from "../../lib/colourmap";
import { columnEnds, heatColours, type StepWindow } from "../../lib/heat";
import { sequentialRamp } from "../../lib/colourmap";
import { stepX, type Frame } from "./axes";

const SIZE = 6;

export function stripePattern(context: CanvasRenderingContext2D, theme: Theme): CanvasPattern | string {
  const [loud, quiet] = heatColours(sequentialRamp(theme), theme).stripes;
  const tile = document.createElement("canvas");
  [tile.width, tile.height] = [SIZE, SIZE];
  const pen = tile.getContext("2d");
  if (!pen) return wordToCss(loud);
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIZE; x++) {
      pen.fillStyle = wordToCss((x + y) % SIZE < SIZE / 2 ? loud : quiet);
      pen.fillRect(x, y, 1, 1);
    }
  }
  return context.createPattern(tile, "repeat") ?? wordToCss(loud);
}

const STRIP_HEIGHT = 6;

/** Marks the samples with NaN or infinite values along the lower edge. */
export function drawBadSamples(
  context: CanvasRenderingContext2D,
  frame: Frame,
  window: StepWindow,
  samples: { readonly first: Float64Array; readonly last: Float64Array },
  bad: Float64Array | undefined,
  theme: Theme,
): void {
  if (!bad?.some((count) => count > 0)) return;
  const ends = columnEnds(samples.first, samples.last);
  context.fillStyle = stripePattern(context, theme);
  bad.forEach((count, i) => {
    if (!(count > 0)) return;
    const left = Math.max(frame.left, stepX(frame, window, samples.first[i] ?? 0));
    const right = Math.min(frame.right, stepX(frame, window, ends[i] ?? 0));
    if (right > left) context.fillRect(left, frame.bottom - STRIP_HEIGHT, Math.max(2, right - left), STRIP_HEIGHT);
  });
}
