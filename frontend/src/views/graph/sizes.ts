import type { SceneSizes } from "../../lib/graph-scene";
import type { Item } from "../../lib/graph-tree";

const SMALL: Partial<Record<Item["kind"], { width: number; height: number }>> = {
  join: { width: 18, height: 18 },
  input: { width: 148, height: 36 },
  output: { width: 148, height: 36 },
};

/** Of boxes and frames, in pixels of the picture. */
export const SIZES: SceneSizes = {
  sizeOf: (item) => SMALL[item.kind] ?? { width: 204, height: item.children.length > 0 ? 54 : 50 },
  title: 28,
  padding: 16,
  leastWidth: () => 236,
};

export const STRIP_HEIGHT = 13;
