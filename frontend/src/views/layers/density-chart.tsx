import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import { rampWord, sequentialRamp } from "../../lib/colourmap";
import { formatCount, formatNumber } from "../../lib/format";
import { pixelColumns, type StepWindow } from "../../lib/heat";
import { quantilesOf } from "../../lib/quantiles";
import { totalOf, type Bins } from "../../lib/rebin";
import { axisFor, binsAt, brightest, densities, lengthOf } from "../../lib/ridge";
import type { ValueScale } from "../../lib/value-axis";
import type { HistogramsAnswer } from "../../wire/types";
import type { Frame } from "./axes";
import { BeyondNote } from "./beyond-note";
import { showsEverything } from "./choices";
import { stepsText } from "./heat-cell";
import { StepChart } from "./step-chart";
import type { StepMoves } from "./steps";
import { drawBadSamples } from "./stripes";
import type { FactsProps } from "./tooltip";

export interface DensityChartProps {
  readonly answer: HistogramsAnswer;
  readonly window: StepWindow;
  readonly scale: ValueScale;
  readonly moves: StepMoves;
  readonly step: Signal<number | null>;
  readonly chosen?: number | null;
  readonly onPick?: (step: number) => void;
  readonly name: string;
  readonly exportName: string;
  readonly height?: number;
}

/** Rows of densities; finer than the screen's own rows would only cost time. */
const ROWS = 220;

/** Histograms over time: a column each, the brighter the more of the values lie there. */
export function DensityChart(props: DensityChartProps): JSX.Element {
  const { answer, window, scale } = props;
  const everything = showsEverything();
  const fitted = useMemo(() => axisFor([], histogramsIn(answer), scale, everything), [answer, scale, everything]);
  const axis = fitted?.axis;
  const shares = useMemo(() => axis && densities(answer, axis, ROWS), [answer, axis]);
  const paint = useCallback(
    (context: CanvasRenderingContext2D, frame: Frame, palette: Palette) => {
      if (shares) drawDensities(context, frame, answer, shares, window, palette);
      drawBadSamples(context, frame, window, answer, answer.nonfinite, palette.theme);
    },
    [answer, shares, window.first, window.last],
  );
  if (!fitted || !axis) {
    const nothing = answer.counts.length === 0;
    return (
      <p class="hint">{nothing ? "No finite value in these steps." : "All values are exactly zero in these steps."}</p>
    );
  }
  return (
    <>
      <StepChart
        window={window}
        axis={axis}
        moves={props.moves}
        samples={answer.first}
        paint={paint}
        facts={(sample) => densityFacts(answer, sample)}
        step={props.step}
        chosen={props.chosen ?? null}
        onPick={props.onPick}
        label={`Histograms of ${props.name} over the steps. Arrow keys move from sample to sample, Enter chooses one.`}
        exportName={props.exportName}
        csv={() => histogramRows(answer)}
        height={props.height ?? 230}
      />
      <BeyondNote beyond={fitted.beyond} />
    </>
  );
}

/** Bins of one histogram after the other. */
export function histogramsIn(answer: HistogramsAnswer): Bins[] {
  return Array.from({ length: lengthOf(answer) }, (_, i) => binsAt(answer, i));
}

function drawDensities(
  context: CanvasRenderingContext2D,
  frame: Frame,
  answer: HistogramsAnswer,
  shares: Float32Array,
  window: StepWindow,
  palette: Palette,
): void {
  const ratio = context.canvas.width / context.canvas.clientWidth || 1;
  const width = Math.max(1, Math.round((frame.right - frame.left) * ratio));
  const height = Math.max(1, Math.round((frame.bottom - frame.top) * ratio));
  const image = context.createImageData(width, height);
  const words = new Uint32Array(image.data.buffer);
  const columns = pixelColumns(answer.first, answer.last, window, width);
  const [ramp, most] = [sequentialRamp(palette.theme), brightest(shares)];
  for (let x = 0; x < width; x++) {
    const sample = (columns.to[x] ?? 0) - 1;
    if (sample < (columns.from[x] ?? 0)) continue;
    for (let y = 0; y < height; y++) {
      const share = shares[sample * ROWS + Math.floor(((height - 1 - y) / height) * ROWS)] ?? 0;
      // The root lets thin tails be seen beside the bulk.
      if (share > 0) words[y * width + x] = rampWord(ramp, 0.06 + 0.94 * Math.sqrt(share / most));
    }
  }
  // By way of another canvas: pixels that are put directly would wipe the grid away.
  const sheet = new OffscreenCanvas(width, height);
  sheet.getContext("2d")?.putImageData(image, 0, 0);
  context.drawImage(sheet, frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
}

function densityFacts(answer: HistogramsAnswer, sample: number): FactsProps["rows"] {
  const bins = binsAt(answer, sample);
  const [low, median, high] = quantilesOf(bins, [0.05, 0.5, 0.95]);
  const rows: [string, string, ("bad" | "muted")?][] = [
    ["step", stepsText(answer.first[sample] ?? 0, answer.last[sample] ?? 0)],
    ["values", formatCount(totalOf(bins.counts))],
    ["95 %", formatNumber(high, 3)],
    ["median", formatNumber(median, 3)],
    ["5 %", formatNumber(low, 3)],
  ];
  const bad = answer.nonfinite[sample] ?? 0;
  if (bad > 0) rows.push(["not finite", formatCount(bad), "bad"]);
  return rows;
}

/** Bins of all samples, one after the other. */
export function histogramRows(answer: HistogramsAnswer): CsvRow[] {
  const rows: CsvRow[] = [["first_step", "last_step", "lower", "upper", "count"]];
  for (let i = 0; i < lengthOf(answer); i++) {
    const bins = binsAt(answer, i);
    bins.counts.forEach((count, k) => {
      rows.push([answer.first[i] ?? null, answer.last[i] ?? null, bins.lower[k] ?? null, bins.upper[k] ?? null, count]);
    });
  }
  return rows;
}
