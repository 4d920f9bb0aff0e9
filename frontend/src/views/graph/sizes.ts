import type { SceneSizes } from "../../lib/graph-scene";
import type { Item } from "../../lib/graph-tree";

const SMALL: Partial<Record<Item["kind"], { width: number; height: number }>> = {
  join: { width: 18, height: 18 },
  input: { width: 148, height: 40 },
  output: { width: 148, height: 40 },
};

/** Of boxes and frames, in pixels of the picture. */
export const SIZES: SceneSizes = {
  sizeOf: (item) => SMALL[item.kind] ?? { width: 204, height: item.children.length > 0 ? 66 : 58 },
  title: 30,
  padding: 16,
  leastWidth: () => 236,
};

export const STRIP_HEIGHT = 14;
