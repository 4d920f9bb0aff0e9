/** How the tensors of a batch are shown, by their shapes: as pictures, as tokens, or as numbers. */

import type { NumberArray } from "./npy";

export type BatchLook = "pictures" | "tokens" | "numbers";

export interface BatchPlan {
  readonly look: BatchLook;
  /** What of the tensor is fetched; null: all of it. */
  readonly slice: string | null;
  /** Where the channels of pictures are, if they have any. */
  readonly channels: "first" | "last" | "none";
}

const MOST_PICTURES = 12;
const LARGEST_SIDE = 128;
const LEAST_SIDE = 4;
const MOST_ROWS = 16;
const MOST_TOKENS = 128;
const MOST_NUMBERS = 12;

export function batchPlan(shape: readonly number[], dtype: string): BatchPlan {
  const channels = channelsOf(shape);
  if (channels !== null && !isToken(shape, dtype)) {
    const thin = (side: number): string => `::${Math.max(1, Math.ceil(side / LARGEST_SIDE))}`;
    const [height = 1, width = 1] = channels === "first" ? shape.slice(2) : shape.slice(1);
    const picture = [thin(height), thin(width)];
    const parts = channels === "first" ? [":", ...picture] : channels === "last" ? [...picture, ":"] : picture;
    return { look: "pictures", channels, slice: `[0:${MOST_PICTURES}, ${parts.join(", ")}]` };
  }
  const look = isToken(shape, dtype) ? "tokens" : "numbers";
  return { look, channels: "none", slice: partOf(shape, look === "tokens" ? MOST_TOKENS : MOST_NUMBERS) };
}

/** The first rows and columns; of more dimensions the first of each. */
function partOf(shape: readonly number[], most: number): string | null {
  if (shape.length === 0) return null;
  if (shape.length === 1) return `[0:${MOST_TOKENS}]`;
  const last = shape.length === 2 ? [`0:${most}`] : [...shape.slice(1, -1).map(() => "0"), `0:${most}`];
  return `[0:${MOST_ROWS}, ${last.join(", ")}]`;
}

function channelsOf(shape: readonly number[]): BatchPlan["channels"] | null {
  const [, a = 0, b = 0, c = 0] = shape;
  const isColour = (size: number): boolean => size === 1 || size === 3 || size === 4;
  const isSide = (size: number): boolean => size >= LEAST_SIDE;
  if (shape.length === 4 && isColour(a) && isSide(b) && isSide(c)) return "first";
  if (shape.length === 4 && isColour(c) && isSide(a) && isSide(b)) return "last";
  return shape.length === 3 && a >= 8 && b >= 8 ? "none" : null;
}

function isToken(shape: readonly number[], dtype: string): boolean {
  return shape.length <= 2 && /int(8|16|32|64)|long|bool/.test(dtype);
}

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue and opaque, 0 … 255. */
  readonly pixels: Uint8ClampedArray<ArrayBuffer>;
  /** What black and white stand for. */
  readonly low: number;
  readonly high: number;
}

/** Each stretched from its least to its greatest value; what is no number is red. */
export function picturesOf({ shape, values }: NumberArray, channels: BatchPlan["channels"]): Picture[] {
  const [many = 0, ...rest] = shape;
  const [height = 0, width = 0] = channels === "first" ? rest.slice(1) : rest;
  const depth = channels === "none" ? 1 : ((channels === "first" ? rest[0] : rest[2]) ?? 1);
  const size = height * width * depth;
  return Array.from({ length: many }, (_, i) => {
    const own = values.subarray(i * size, (i + 1) * size);
    const at = (pixel: number, channel: number): number =>
      own[channels === "first" ? channel * height * width + pixel : pixel * depth + channel] ?? NaN;
    return paint(width, height, depth, own, at);
  });
}

function paint(
  width: number,
  height: number,
  depth: number,
  values: Float64Array,
  at: (pixel: number, channel: number) => number,
): Picture {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const span = high - low || 1;
  const pixels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const colour = [0, 1, 2].map((channel) => at(pixel, depth < 3 ? 0 : channel));
    const isKnown = colour.every(Number.isFinite);
    colour.forEach((value, channel) => {
      pixels[4 * pixel + channel] = isKnown ? (255 * (value - low)) / span : channel === 0 ? 220 : 0;
    });
  }
  return { width, height, pixels, low, high };
}

/** Rows of values: an array of one dimension is a row for each value. */
export function rowsOf({ shape, values }: NumberArray): number[][] {
  const [height = 1, width = 1] = shape.length === 0 ? [1, 1] : [shape[0], shape[1] ?? 1];
  return Array.from({ length: height }, (_, row) => [...values.subarray(row * width, (row + 1) * width)]);
}
