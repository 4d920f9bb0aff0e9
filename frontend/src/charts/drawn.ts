/** Tells whoever listens, such as a measurement of how soon a step is seen, what the charts show. */

import type { LineSeries, Source } from "./line-series";

/** On `window`; its detail are the sources of a chart. */
export const DRAWN = "netdebug:drawn";

export class DrawnNotice {
  private waiting: readonly Source[] | null = null;

  /** To be called after each drawing; told once a frame, in the one that brings it to the screen. */
  drew(series: readonly LineSeries[]): void {
    const sources = series.flatMap(({ source }) => (source ? [source] : []));
    if (sources.length === 0) return;
    if (this.waiting === null) requestAnimationFrame(() => this.tell());
    this.waiting = sources;
  }

  private tell(): void {
    const detail = this.waiting;
    this.waiting = null;
    window.dispatchEvent(new CustomEvent(DRAWN, { detail }));
  }
}
