import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useMemo, useRef } from "preact/hooks";
import { colourOf, range } from "../../app/state";
import { CanvasBox } from "../../charts/canvas";
import type { Palette } from "../../charts/palette";
import { formatCount, formatNumber, formatSeconds, formatShort } from "../../lib/format";
import { type SlowStep, stepTimes, type TimeBin, timeBins } from "../../lib/phases";
import { niceValues } from "../../lib/value-axis";
import type { RunRow, ScalarColumns } from "../../wire/types";
import { Section } from "./tiles";

interface DistributionProps {
  readonly run: RunRow;
  readonly whole: ScalarColumns | undefined;
}

/** How long steps take, and which ones took much longer than the others. */
export function DistributionSection({ run, whole }: DistributionProps): JSX.Element | null {
  const times = useMemo(() => stepTimes(whole), [whole]);
  const bins = useMemo(() => (whole ? timeBins(whole) : []), [whole]);
  if (!times || !whole) return null;
  const bucket = Math.round(whole.count[Math.floor(whole.count.length / 2)] ?? 1);
  const reading = `Median ${formatSeconds(times.median)}, 95th percentile ${formatSeconds(times.p95)}, longest ${formatSeconds(times.longest)}.`;
  return (
    <Section title="Distribution of step times" reading={reading}>
      <div class="two-thirds">
        <div class="card page-card">
          {bins.length > 0 ? (
            <Bins bins={bins} colour={colourOf(run.name)} />
          ) : (
            <p class="nothing">All steps took the same time, or there is only one.</p>
          )}
          {!times.isExact && (
            <p class="faint">
              Each value is the mean of about {formatCount(bucket)} steps because the range is long; select fewer steps
              to see single ones.
            </p>
          )}
        </div>
        <div class="card page-card">
          <SlowSteps slow={times.slow} />
        </div>
      </div>
    </Section>
  );
}

function SlowSteps({ slow }: { readonly slow: readonly SlowStep[] }): JSX.Element {
  if (slow.length === 0) return <p class="muted">No step took much longer than the others.</p>;
  return (
    <>
      <h4>Slowest steps, relative to the median</h4>
      <ul class="slow-list">
        {slow.map(({ first, last, seconds, factor }) => (
          <li key={first}>
            <button
              type="button"
              class="link"
              title="Show these steps in the charts"
              onClick={() => showAround(first, last)}
            >
              {first === last ? `step ${formatCount(first)}` : `in ${formatCount(first)} – ${formatCount(last)}`}
            </button>
            <span>{formatSeconds(seconds)}</span>
            <span class="muted">{formatNumber(factor, 2)} ×</span>
          </li>
        ))}
      </ul>
    </>
  );
}

const STEPS_AROUND = 25;

function showAround(first: number, last: number): void {
  range.value = { first: Math.max(0, first - STEPS_AROUND), last: last + STEPS_AROUND };
}

interface BinsProps {
  readonly bins: readonly TimeBin[];
  readonly colour: string;
}

const FRAME = { left: 52, right: 10, top: 8, bottom: 24 } as const;

function Bins({ bins, colour }: BinsProps): JSX.Element {
  const pointed = useSignal(-1);
  const drawnWidth = useRef(1);
  const marked = pointed.value;
  const draw = useCallback(
    (context: CanvasRenderingContext2D, width: number, height: number, palette: Palette) => {
      drawnWidth.current = width;
      drawBins(context, width, height, palette, bins, colour, marked);
    },
    [bins, colour, marked],
  );
  const bin = bins[marked];
  return (
    <>
      <div class="chart-head">
        <h4 class="chart-title">Steps by duration</h4>
        <span class="chart-value">
          {bin &&
            `${formatSeconds(bin.lower)} to ${formatSeconds(bin.upper)}: ${formatCount(bin.steps)} ${bin.steps === 1 ? "step" : "steps"}`}
        </span>
      </div>
      <CanvasBox
        draw={draw}
        height={190}
        label={`Distribution of step times in ${bins.length} bins. Arrow keys go from bin to bin.`}
        exportName="step-time-distribution"
        csv={() => [
          ["from_seconds", "to_seconds", "steps"],
          ...bins.map(({ lower, upper, steps }) => [lower, upper, steps]),
        ]}
        onPointer={({ type, x }) => {
          const place = Math.floor(((x - FRAME.left) / (drawnWidth.current - FRAME.left - FRAME.right)) * bins.length);
          pointed.value = type === "leave" || place < 0 || place >= bins.length ? -1 : place;
        }}
        onKey={(event) => {
          const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
          if (by === undefined) return false;
          pointed.value = Math.min(Math.max(marked + by, 0), bins.length - 1);
          return true;
        }}
      />
    </>
  );
}

function drawBins(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  palette: Palette,
  bins: readonly TimeBin[],
  colour: string,
  marked: number,
): void {
  const [bottom, right] = [height - FRAME.bottom, width - FRAME.right];
  const most = bins.reduce((high, { steps }) => Math.max(high, steps), 1);
  const placeY = (steps: number): number => bottom - (steps / most) * (bottom - FRAME.top - 4);
  context.font = `11px ${palette.font}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const tick of niceValues(0, most, 4)) {
    context.fillStyle = palette.grid;
    context.fillRect(FRAME.left, Math.round(placeY(tick)), right - FRAME.left, 1);
    context.fillStyle = palette.faint;
    context.fillText(formatShort(tick), FRAME.left - 6, placeY(tick));
  }
  const step = (right - FRAME.left) / bins.length;
  for (const [place, { steps }] of bins.entries()) {
    // One step among many is a thin line, but it is seen.
    const top = steps > 0 ? Math.min(placeY(steps), bottom - 1.5) : bottom;
    context.fillStyle = colour;
    context.globalAlpha = place === marked ? 1 : 0.72;
    context.fillRect(FRAME.left + place * step + 0.5, top, Math.max(step - 1, 1), bottom - top);
  }
  context.globalAlpha = 1;
  drawTimes(context, right, bottom, palette, bins);
}

/** The last bin reaches to the longest step, so the axis ends where it begins. */
function drawTimes(
  context: CanvasRenderingContext2D,
  right: number,
  bottom: number,
  palette: Palette,
  bins: readonly TimeBin[],
): void {
  const [low, last] = [bins[0]?.lower ?? 0, bins.at(-1)?.lower ?? 1];
  const width = bins.length > 1 ? (last - low) / (bins.length - 1) : 1;
  const place = (seconds: number): number =>
    FRAME.left + ((seconds - low) / (width * bins.length)) * (right - FRAME.left);
  context.fillStyle = palette.faint;
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const tick of niceValues(low, low + width * bins.length, Math.floor((right - FRAME.left) / 90))) {
    context.fillText(formatSeconds(tick), Math.min(Math.max(place(tick), FRAME.left + 14), right - 20), bottom + 7);
  }
}
