import { signal, type Signal } from "@preact/signals";
import type { JSX, RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { theme } from "../app/state";
import { formatCount, formatNumber, formatShort } from "../lib/format";
import { extentX, extentY } from "../lib/extent";
import { nearestIndex } from "../lib/nearest";
import { shownName } from "../lib/tensor-name";
import { onSize } from "./canvas";
import { ChartEmpty, ChartTools } from "./chart-frame";
import { registerCursor, rememberCursor } from "./cursor";
import { exportCsv, exportPng, type CsvRow } from "./export";
import type uPlot from "uplot";
import { LinePlot, type PlotContent } from "./line-plot";
import type { LineSeries, Marker } from "./line-series";
import { Legend, rowsAt, Tooltip } from "./line-tooltip";
import { paletteOf } from "./palette";
import { describe } from "./line-summary";

export type { LineSeries, Marker } from "./line-series";

export interface LineChartProps {
  /** The first one is in focus: it is drawn on top, and its value stands in the title. */
  readonly series: readonly LineSeries[];
  /** The label of the series that may have its value in the title, where the one in focus may be missing. */
  readonly headline?: string | null;
  readonly title: string;
  readonly yLabel?: string;
  readonly xLabel?: string;
  /** "elapsed": x are seconds. */
  readonly xKind?: "number" | "elapsed";
  readonly logY?: boolean;
  /** "bytes": ticks at round numbers of KiB, MiB and so on. */
  readonly yKind?: "number" | "bytes";
  readonly formatY?: (value: number) => string;
  readonly formatX?: (value: number) => string;
  readonly markers?: readonly Marker[];
  /** The visible part in units of x; null: all of it, following what comes. */
  readonly zoom?: readonly [first: number, last: number] | null;
  /** Called with the part that was dragged over, and with null for all of it. */
  readonly onZoom?: (zoom: readonly [first: number, last: number] | null) => void;
  /** Charts with the same key share their crosshair. */
  readonly syncKey?: string;
  readonly exportName: string;
  /** Of the plot in CSS pixels. */
  readonly height?: number;
  /** Whether the lines are named below the chart. */
  readonly legend?: boolean;
  /** What to say when no series has a point. */
  readonly empty?: string;
}

const DEFAULT_HEIGHT = 200;

interface Pointed {
  readonly x: number;
  readonly own: boolean;
}

/** Lines with bands over steps, time or samples. */
export function LineChart(props: LineChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<LinePlot | null>(null);
  const pointed = useMemo(() => signal<Pointed | null>(null), []);
  const [whole, setWhole] = useState(false);
  const { content, hides } = contentOf(props, whole);
  const hasPoints = props.series.some((series) => series.x.length > 0);
  const latest = useRef({ props, content });
  latest.current = { props, content };
  const { height = DEFAULT_HEIGHT, logY = false, syncKey } = props;
  usePlot({ place, chart, pointed, latest, recreate: [hasPoints, logY, syncKey, height] });
  useEffect(() => chart.current?.show(content));
  return (
    <figure class="line-chart">
      <Head {...props} pointed={pointed} chart={chart} hides={hides} whole={whole} setWhole={setWhole} />
      {hasPoints ? (
        <div
          ref={place}
          class="plot"
          style={{ height: `${height}px` }}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the cursor of the chart in focus
          tabIndex={0}
          role="img"
          aria-label={describe(props.title, props.series, formatY(props), props.markers)}
          onFocus={() => chart.current && rememberCursor(movable(chart.current, latest, pointed))}
        >
          <Floating {...props} pointed={pointed} chart={chart} />
        </div>
      ) : (
        <div style={{ height: `${height}px` }}>
          <ChartEmpty>{props.empty ?? "Nothing recorded yet."}</ChartEmpty>
        </div>
      )}
      {props.legend && hasPoints && <Names {...props} pointed={pointed} />}
    </figure>
  );
}

function Names(props: Pointing): JSX.Element {
  return <Legend series={props.series} x={props.pointed.value?.x ?? null} format={formatY(props)} />;
}

type HeadProps = Pointing & {
  readonly chart: { readonly current: LinePlot | null };
  /** Whether some points lie outside of the picture unless all of them are wanted. */
  readonly hides: boolean;
  readonly whole: boolean;
  readonly setWhole: (whole: boolean) => void;
};

function Head(props: HeadProps): JSX.Element {
  const { title, yLabel, zoom, onZoom, chart, exportName, hides, whole, setWhole } = props;
  const short = shownName(title).slice(0, 200);
  const drawn = props.series.filter((series) => series.x.length > 0);
  const png = (): void => {
    if (chart.current) exportPng(chart.current.plot.ctx.canvas, exportName, { title, legend: drawn });
  };
  return (
    <figcaption class="chart-head">
      <h4 class="chart-title">
        <bdi>{short}</bdi>
      </h4>
      {yLabel && <span class="chart-unit">{yLabel}</span>}
      <span class="grow" />
      <ChartTools
        what={short}
        onPng={png}
        onCsv={() => exportCsv(csvRows(props), exportName)}
        onReset={zoom && onZoom ? () => onZoom(null) : undefined}
      >
        {hides && (
          <button
            type="button"
            class="tool"
            aria-pressed={whole}
            title="Extend the axis to show outliers"
            onClick={() => setWhole(!whole)}
          >
            OUTLIERS
          </button>
        )}
      </ChartTools>
      <Headline {...props} />
    </figcaption>
  );
}

interface PlotHook {
  readonly place: RefObject<HTMLDivElement | null>;
  readonly chart: { current: LinePlot | null };
  readonly pointed: Signal<Pointed | null>;
  readonly latest: { readonly current: { readonly props: LineChartProps; readonly content: PlotContent } };
  /** A plot is made anew when one of these changes. */
  readonly recreate: readonly unknown[];
}

function usePlot({ place, chart, pointed, latest, recreate }: PlotHook): void {
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const { height = DEFAULT_HEIGHT, syncKey } = latest.current.props;
    const made = new LinePlot({ element, height, syncKey }, latest.current.content, {
      onZoom: (zoom) => latest.current.props.onZoom?.(zoom),
      onCursor: (x, own) => {
        pointed.value = x === null ? null : { x, own };
        if (own) rememberCursor(handle);
      },
    });
    const handle = movable(made, latest, pointed);
    chart.current = made;
    const stopSize = onSize(element, () => made.resize(element.clientWidth, height));
    const stopCursor = registerCursor(handle);
    return () => {
      stopSize();
      stopCursor();
      made.plot.destroy();
      chart.current = null;
    };
  }, recreate);
}

/** Moves from point to point of the series in focus. */
function movable(chart: LinePlot, latest: PlotHook["latest"], pointed: Signal<Pointed | null>) {
  return {
    element: chart.plot.root,
    move: (points: number): boolean => {
      const xs = latest.current.props.series.find((series) => series.x.length > 0)?.x;
      if (!xs) return false;
      const [low, high] = chart.rangeX;
      const from = nearestIndex(xs, pointed.peek()?.x ?? (points > 0 ? low : high));
      const x = xs[Math.min(Math.max(from + points, 0), xs.length - 1)] ?? low;
      chart.pointAt(Math.min(Math.max(x, low), high));
      return true;
    },
  };
}

type Pointing = LineChartProps & { readonly pointed: Signal<Pointed | null> };

/** The value of the series in focus: under the crosshair, else the newest. Never that of another one. */
function Headline({ series, headline, pointed, ...props }: Pointing): JSX.Element | null {
  const first = series[0];
  if (!first || first.x.length === 0 || (headline !== undefined && headline !== first.label)) return null;
  const at = pointed.value === null ? first.x.length - 1 : nearestIndex(first.x, pointed.value.x);
  const value = first.y[at] ?? NaN;
  const text = (first.bad?.[at] ?? 0) > 0 && !Number.isFinite(value) ? "not finite" : formatY(props)(value);
  return <span class={`chart-value ${pointed.value ? "pointed" : ""}`}>{text}</span>;
}

function Floating(props: Pointing & { readonly chart: { readonly current: LinePlot | null } }): JSX.Element | null {
  const at = props.pointed.value;
  const plot = props.chart.current?.plot;
  if (!at || !plot) return null;
  const rows = rowsAt(props.series, at.x, formatY(props));
  const left = plot.valToPos(at.x, "x") + plot.over.offsetLeft;
  return (
    <>
      {rows.map((row) => (
        <Dot key={row.label} colour={row.colour} plot={plot} x={row.x} y={row.y} />
      ))}
      {at.own && rows.length > 0 && (
        <Tooltip rows={rows} title={titleAt(props, rows[0]?.x ?? at.x)} left={left} width={plot.width} />
      )}
    </>
  );
}

function Dot({ colour, plot, x, y }: { colour: string; plot: uPlot; x: number; y: number }): JSX.Element | null {
  if (!Number.isFinite(y)) return null;
  const left = plot.valToPos(x, "x") + plot.over.offsetLeft;
  const top = plot.valToPos(y, "y") + plot.over.offsetTop;
  return <span class="dot" style={{ background: colour, transform: `translate(${left}px, ${top}px)` }} />;
}

function titleAt(props: LineChartProps, x: number): string {
  const text = props.xKind === "elapsed" ? formatX(props)(x) : formatCount(x);
  return props.xLabel ? `${props.xLabel} ${text}` : text;
}

function formatY(props: LineChartProps | Omit<LineChartProps, "series">): (value: number) => string {
  return props.formatY ?? formatNumber;
}

function formatX(props: LineChartProps): (value: number) => string {
  return props.formatX ?? formatShort;
}

function contentOf(props: LineChartProps, whole: boolean): { readonly content: PlotContent; readonly hides: boolean } {
  const { series, logY: log = false } = props;
  const rangeX = props.zoom ?? extentX(series) ?? [0, 1];
  const bulk = extentY(series, rangeX, { log });
  const found = whole ? extentY(series, rangeX, { log, whole }) : bulk;
  const content = {
    series,
    markers: props.markers ?? [],
    rangeX,
    rangeY: found?.range ?? (log ? [0.1, 1] : [0, 1]),
    logY: log,
    elapsed: props.xKind === "elapsed",
    bytes: props.yKind === "bytes",
    formatX: formatX(props),
    formatY: formatY(props),
    palette: paletteOf(theme.value),
  } as const;
  return { content, hides: bulk?.hides ?? false };
}

function csvRows({ series, xLabel = "x" }: LineChartProps): CsvRow[] {
  const head: CsvRow = ["series", xLabel, "value", "lowest", "highest", "before smoothing", "non-finite"];
  const rows = series.flatMap((each) =>
    [...each.x].map((x, at): CsvRow => {
      const cell = (values: Float64Array | undefined): number | null => values?.[at] ?? null;
      return [each.label, x, cell(each.y), cell(each.low), cell(each.high), cell(each.raw), cell(each.bad)];
    }),
  );
  return [head, ...rows];
}
