/** Exponential moving average, corrected for its start so that the first points are not drawn towards zero. */

/** `weight` 0 … 1 is the weight of the past. Non-finite values stay as they are and are passed over. */
export function smoothed(values: Float64Array, weight: number): Float64Array {
  if (weight <= 0) return values;
  const result = new Float64Array(values.length);
  let [average, share] = [0, 1];
  for (let index = 0; index < values.length; index++) {
    const value = values[index] ?? NaN;
    if (!Number.isFinite(value)) {
      result[index] = value;
      continue;
    }
    average = average * weight + value * (1 - weight);
    share *= weight;
    result[index] = average / (1 - share);
  }
  return result;
}
