/** uPlot as the frame of a line chart: scales, axes, crosshair and zoom. The lines are line-painter's. */

import uPlot from "uplot";
import { TIME_INCREMENTS } from "../lib/elapsed";
import { byteIncrements } from "../lib/format";
import type { Extent } from "../lib/extent";
import { DrawnNotice } from "./drawn";
import { paint } from "./line-painter";
import type { LineSeries, Marker } from "./line-series";
import { dragAlong } from "./line-touch";
import type { Palette } from "./palette";

/** All that a plot shows; what it reads each time it draws. */
export interface PlotContent {
  readonly series: readonly LineSeries[];
  readonly markers: readonly Marker[];
  readonly rangeX: Extent;
  readonly rangeY: Extent;
  /** A plot keeps the kind of scale that it was made with. */
  readonly logY: boolean;
  readonly elapsed: boolean;
  /** Ticks at round numbers of KiB, MiB and so on. */
  readonly bytes: boolean;
  readonly formatX: (value: number) => string;
  readonly formatY: (value: number) => string;
  readonly palette: Palette;
}

export interface PlotEvents {
  readonly onZoom: (zoom: Extent | null) => void;
  /** x under the crosshair, null when it left; whether it was moved in this very plot and not in one beside it. */
  readonly onCursor: (x: number | null, own: boolean) => void;
}

export interface PlotPlace {
  readonly element: HTMLElement;
  readonly height: number;
  readonly syncKey: string | undefined;
}

const NUMBER_INCREMENTS = [...Array(20).keys()].flatMap((index) => [1, 2, 5].map((lead) => lead * 10 ** (index - 5)));

export class LinePlot {
  readonly plot: uPlot;
  private moved = false;
  private readonly notice = new DrawnNotice();

  constructor(
    place: PlotPlace,
    private content: PlotContent,
    private readonly events: PlotEvents,
  ) {
    this.plot = new uPlot(this.options(place), this.corners(), place.element);
    dragAlong(this);
  }

  show(content: PlotContent): void {
    this.content = content;
    this.plot.setData(this.corners());
  }

  resize(width: number, height: number): void {
    if (width > 0 && height > 0) this.plot.setSize({ width, height });
  }

  /** Moves the crosshair to an x, as a pointer would. */
  pointAt(x: number): void {
    this.pointAtPixel(this.plot.valToPos(x, "x"));
  }

  pointAtPixel(left: number): void {
    this.moved = true;
    this.plot.setCursor({ left, top: this.plot.over.clientHeight / 2 });
    this.moved = false;
  }

  zoomTo(zoom: Extent | null): void {
    this.events.onZoom(zoom);
  }

  get rangeX(): Extent {
    return this.content.rangeX;
  }

  /** All that uPlot knows of the data: two points, of which it makes its scales. */
  private corners(): uPlot.AlignedData {
    return [[...this.content.rangeX], [...this.content.rangeY]];
  }

  private options({ element, height, syncKey }: PlotPlace): uPlot.Options {
    return {
      width: Math.max(element.clientWidth, 100),
      height,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      scales: {
        x: { time: false, range: () => [...this.content.rangeX] },
        y: { distr: this.content.logY ? 3 : 1, range: () => [...this.content.rangeY] },
      },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [this.axisX(), this.axisY()],
      cursor: this.cursor(syncKey),
      hooks: {
        draw: [(plot) => this.draw(plot)],
        setSelect: [(plot) => this.select(plot)],
        setCursor: [(plot) => this.tellCursor(plot)],
      },
    };
  }

  private cursor(syncKey: string | undefined): uPlot.Cursor {
    const cursor: uPlot.Cursor = {
      y: false,
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: 5 },
      bind: {
        dblclick: () => () => {
          this.events.onZoom(null);
          return null;
        },
      },
    };
    return syncKey === undefined ? cursor : { ...cursor, sync: { key: syncKey, scales: ["x", null] } };
  }

  private axisX(): uPlot.Axis {
    return {
      ...this.axisLook(),
      size: 26,
      gap: 5,
      space: 64,
      incrs: () => (this.content.elapsed ? [...TIME_INCREMENTS] : NUMBER_INCREMENTS),
      values: (_, ticks) => ticks.map((tick) => this.content.formatX(tick)),
    };
  }

  private axisY(): uPlot.Axis {
    return {
      ...this.axisLook(),
      gap: 6,
      space: 36,
      ...(this.content.bytes ? { incrs: byteIncrements() } : {}),
      size: (plot, values) => widest(plot, values),
      values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.content.formatY(tick))),
    };
  }

  private axisLook(): uPlot.Axis {
    return {
      stroke: () => this.content.palette.faint,
      font: `11px ${this.content.palette.font}`,
      grid: { stroke: () => this.content.palette.grid, width: 1 },
      ticks: { show: false },
    };
  }

  private draw(plot: uPlot): void {
    paint(plot, this.content);
    this.notice.drew(this.content.series);
  }

  private select(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width <= 0) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.onZoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
  }

  private tellCursor(plot: uPlot): void {
    const { left = -1, event } = plot.cursor;
    const own = this.moved || event?.target === plot.over;
    this.events.onCursor(left < 0 ? null : plot.posToVal(left, "x"), own);
  }
}

function widest(plot: uPlot, values: readonly string[] | null): number {
  const widths = (values ?? []).map((value) => plot.ctx.measureText(value).width / devicePixelRatio);
  return Math.max(40, Math.ceil(Math.max(0, ...widths)) + 14);
}
