/** Names and shapes as a small box has room for them. */

import type { TensorShape } from "../wire/types";

/** No name is looked at beyond this: one of ten thousand characters would stop the picture. */
const LONGEST = 160;

/** "32×64×8×8"; a scalar is "·". */
export function shapeText(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : shape.slice(0, 8).join("×") + (shape.length > 8 ? "×…" : "");
}

/** "32×10", "32×10 +2" where there are more tensors, "" where there is none. */
export function shapesText(tensors: readonly TensorShape[]): string {
  const first = tensors[0];
  if (!first) return "";
  return shapeText(first.shape) + (tensors.length > 1 ? ` +${tensors.length - 1}` : "");
}

/** On one line, without characters that would turn the direction of what stands beside. */
export function plainName(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  return name.slice(0, LONGEST).replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, " ");
}

/** Shortened in the middle until it measures at most `room`: both ends of a module's name tell something. */
export function fittedText(text: string, room: number, measure: (text: string) => number): string {
  const name = plainName(text);
  if (measure(name) <= room) return name;
  let [low, high] = [0, name.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(shortened(name, middle)) <= room) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : shortened(name, low);
}

function shortened(name: string, kept: number): string {
  const tail = Math.floor(kept / 3);
  return `${name.slice(0, kept - tail)}…${tail > 0 ? name.slice(-tail) : ""}`;
}
