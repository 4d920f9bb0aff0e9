import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { CsvRow } from "../../charts/export";
import type { Palette } from "../../charts/palette";
import { bandAxis, BAND_LABELS, BAND_PAIRS, MEDIAN, quantileAt, stretches } from "../../lib/bands";
import { rampColour, sequentialRamp } from "../../lib/colourmap";
import { formatCount, formatNumber } from "../../lib/format";
import type { StepWindow } from "../../lib/heat";
import type { ValueAxis, ValueScale } from "../../lib/value-axis";
import type { BandsAnswer } from "../../wire/types";
import { stepX, valueY, type Frame } from "./axes";
import { BeyondNote } from "./beyond-note";
import { showsEverything } from "./choices";
import { stepsText } from "./heat-cell";
import { StepChart } from "./step-chart";
import type { StepMoves } from "./steps";
import { drawBadSamples } from "./stripes";
import type { FactsProps } from "./tooltip";

export interface BandsChartProps {
  readonly answer: BandsAnswer;
  readonly window: StepWindow;
  readonly scale: ValueScale;
  readonly moves: StepMoves;
  readonly step: Signal<number | null>;
  readonly onPick: (step: number) => void;
  readonly name: string;
  readonly exportName: string;
}

const OPACITIES = [0.22, 0.4, 0.6, 0.85] as const;

/** Shaded quantiles over time, from the extremes in to the median. */
export function BandsChart(props: BandsChartProps): JSX.Element {
  const { answer, window, scale } = props;
  const everything = showsEverything();
  const fitted = useMemo(() => bandAxis(answer.quantiles, scale, everything), [answer, scale, everything]);
  const axis = fitted?.axis;
  const paint = useCallback(
    (context: CanvasRenderingContext2D, frame: Frame, palette: Palette) => {
      if (axis) drawBands(context, frame, answer, axis, window, palette);
    },
    [answer, axis, window.first, window.last],
  );
  if (!fitted || !axis) return <p class="hint">No finite value in these steps.</p>;
  return (
    <>
      <StepChart
        window={window}
        axis={axis}
        moves={props.moves}
        samples={answer.first}
        paint={paint}
        facts={(sample) => bandFacts(answer, sample)}
        step={props.step}
        onPick={props.onPick}
        label={`Quantiles of ${props.name} over the steps. Arrow keys move from sample to sample.`}
        exportName={props.exportName}
        csv={() => bandRows(answer)}
        height={230}
      />
      <BeyondNote beyond={fitted.beyond} />
    </>
  );
}

function drawBands(
  context: CanvasRenderingContext2D,
  frame: Frame,
  answer: BandsAnswer,
  axis: ValueAxis,
  window: StepWindow,
  palette: Palette,
): void {
  const ramp = sequentialRamp(palette.theme);
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  context.clip();
  const x = (sample: number): number => stepX(frame, window, (answer.first[sample] ?? 0) + 0.5);
  const y = (sample: number, column: number): number =>
    valueY(frame, axis, quantileAt(answer.quantiles, sample, column));
  for (const stretch of stretches(answer.quantiles)) {
    BAND_PAIRS.forEach(([low, high], i) => {
      context.fillStyle = rampColour(ramp, palette.theme === "dark" ? 0.25 + 0.14 * i : 0.2 + 0.16 * i);
      context.globalAlpha = OPACITIES[i] ?? 1;
      drawBand(
        context,
        stretch,
        x,
        (sample) => y(sample, low),
        (sample) => y(sample, high),
      );
    });
    context.globalAlpha = 1;
    drawLine(context, stretch, x, (sample) => y(sample, MEDIAN), palette.text);
  }
  drawBadSamples(context, frame, window, answer, answer.statistics.get("nonfinite"), palette.theme);
  context.restore();
}

type Stretch = { readonly from: number; readonly to: number };
type ToPixel = (sample: number) => number;

/** At least a pixel and a half wide and high, so that one sample alone, or a constant, is seen. */
function drawBand(
  context: CanvasRenderingContext2D,
  { from, to }: Stretch,
  x: ToPixel,
  low: ToPixel,
  high: ToPixel,
): void {
  context.beginPath();
  for (let i = from; i < to; i++) context.lineTo(x(i), high(i) - 0.5);
  if (to - from === 1) context.lineTo(x(from) + 2, high(from) - 0.5);
  if (to - from === 1) context.lineTo(x(from) + 2, low(from) + 0.5);
  for (let i = to - 1; i >= from; i--) context.lineTo(x(i), low(i) + 0.5);
  context.fill();
}

function drawLine(
  context: CanvasRenderingContext2D,
  { from, to }: Stretch,
  x: ToPixel,
  y: ToPixel,
  colour: string,
): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.25;
  context.beginPath();
  for (let i = from; i < to; i++) context.lineTo(x(i), y(i));
  if (to - from === 1) context.lineTo(x(from) + 2, y(from));
  context.stroke();
}

function bandFacts(answer: BandsAnswer, sample: number): FactsProps["rows"] {
  const text = (column: number): string => formatNumber(quantileAt(answer.quantiles, sample, column), 3);
  const bad = answer.statistics.get("nonfinite")?.[sample] ?? 0;
  const rows: [string, string, ("bad" | "muted")?][] = [
    ["step", stepsText(answer.first[sample] ?? 0, answer.last[sample] ?? 0)],
    ["max", text(8)],
    ["99 %", text(7)],
    ["95 %", text(6)],
    ["75 %", text(5)],
    ["median", text(MEDIAN)],
    ["25 %", text(3)],
    ["5 %", text(2)],
    ["1 %", text(1)],
    ["min", text(0)],
  ];
  if (bad > 0) rows.push(["not finite", formatCount(bad * (answer.statistics.get("count")?.[sample] ?? NaN)), "bad"]);
  return rows;
}

function bandRows(answer: BandsAnswer): CsvRow[] {
  const header = ["first_step", "last_step", "min", "q01", "q05", "q25", "median", "q75", "q95", "q99", "max"];
  const rows = Array.from(answer.first, (first, i): CsvRow => {
    const quantiles = Array.from(answer.quantiles.subarray(i * 9, i * 9 + 9), (value) =>
      Number.isNaN(value) ? null : value,
    );
    return [first, answer.last[i] ?? null, ...quantiles];
  });
  return [header, ...rows];
}

/** Which shade is which quantile. */
export function BandsLegend({ theme }: { readonly theme: "light" | "dark" }): JSX.Element {
  const ramp = sequentialRamp(theme);
  return (
    <p class="bands-legend">
      {BAND_LABELS.map((label, i) => (
        <span key={label} class="heat-swatch">
          <i
            style={{
              background: rampColour(ramp, theme === "dark" ? 0.25 + 0.14 * i : 0.2 + 0.16 * i),
              opacity: OPACITIES[i] ?? 1,
            }}
          />
          {label}
        </span>
      ))}
      <span class="heat-swatch">
        <i class="bands-median" />
        median
      </span>
    </p>
  );
}
