/** Columns of scalars for the tests. */

import type { ScalarColumns } from "../wire/types";

/** One value a step, from step `first` on. */
export function steps(values: readonly number[], first = 0): ScalarColumns {
  return buckets(values.map((value, index) => ({ first: first + index, last: first + index, mean: value })));
}

export interface Bucket {
  readonly first: number;
  readonly last: number;
  readonly mean: number;
  readonly max?: number;
  /** Values in it; by default one a step. */
  readonly count?: number;
}

export function buckets(rows: readonly Bucket[]): ScalarColumns {
  const column = (value: (row: Bucket) => number): Float64Array => Float64Array.from(rows, value);
  return {
    step: column((row) => row.first),
    last: column((row) => row.last),
    time: column((row) => row.first),
    samples: column((row) => row.last),
    mean: column((row) => row.mean),
    min: column((row) => row.mean),
    max: column((row) => row.max ?? row.mean),
    bad: column((row) => (Number.isFinite(row.mean) ? 0 : 1)),
    end: column((row) => row.mean),
    count: column((row) => row.count ?? row.last - row.first + 1),
  };
}
