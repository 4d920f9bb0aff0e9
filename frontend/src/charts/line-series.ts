/** What a line chart draws. */

/** Where the numbers of a line come from, and up to which step. */
export interface Source {
  readonly run: string;
  readonly scalar: string;
  readonly last: number;
}

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
  readonly source?: Source;
}

export interface Marker {
  readonly x: number;
  readonly label: string;
  readonly tone: "good" | "warning" | "bad" | "info";
}
