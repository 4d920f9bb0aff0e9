import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface LineSeries {
  readonly label: string;
  readonly colour: string;
  /** Ascending. */
  readonly x: Float64Array;
  /** NaN is a gap. */
  readonly y: Float64Array;
  /** A band around the line. */
  readonly low?: Float64Array;
  readonly high?: Float64Array;
  /** Drawn faintly behind: the line before smoothing. */
  readonly raw?: Float64Array;
  /** Number of non-finite values at each x: marked at the lower edge. */
  readonly bad?: Float64Array;
  readonly dash?: readonly number[];
}

export interface Marker {
  readonly x: number;
  readonly label: string;
  readonly tone: "good" | "warning" | "bad" | "info";
}

export interface LineChartProps {
  readonly series: readonly LineSeries[];
  readonly title: string;
  readonly yLabel?: string;
  readonly xLabel?: string;
  /** "time": x are seconds since 1970. */
  readonly xKind?: "number" | "time";
  readonly logY?: boolean;
  readonly formatY?: (value: number) => string;
  readonly formatX?: (value: number) => string;
  readonly markers?: readonly Marker[];
  /** The visible part in units of x; null: all of it. */
  readonly zoom?: readonly [first: number, last: number] | null;
  /** Called with the part that was dragged over, and with null for all of it. */
  readonly onZoom?: (zoom: readonly [first: number, last: number] | null) => void;
  /** Charts with the same key share their crosshair. */
  readonly syncKey?: string;
  readonly exportName: string;
  /** In CSS pixels; default 240. */
  readonly height?: number;
  /** What to say when no series has a point. */
  readonly empty?: string;
}

export function LineChart(props: LineChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = place.current;
    const first = props.series[0];
    if (!box || !first) return;
    const plot = new uPlot(
      {
        width: box.clientWidth,
        height: props.height ?? 240,
        scales: { x: { time: false } },
        series: [{}, ...props.series.slice(0, 1).map((each) => ({ label: each.label, stroke: each.colour }))],
      },
      [first.x, first.y],
      box,
    );
    return () => plot.destroy();
  }, [props.series]);
  return <div ref={place} class="line-chart" role="img" aria-label={props.title} />;
}
