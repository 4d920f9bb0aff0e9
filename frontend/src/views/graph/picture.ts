import type { Palette } from "../../charts/palette";
import { type Ramp, rampWord, sequentialRamp, lightnessOf, wordToCss } from "../../lib/colourmap";
import type { Camera } from "../../lib/graph-camera";
import type { Health, Measure } from "../../lib/graph-health";
import type { Scene } from "../../lib/graph-scene";
import type { GraphTree } from "../../lib/graph-tree";
import { type HeatScale, heatScale } from "../../lib/heat-scale";
import type { Hovered } from "./graph-state";

/** Everything that is drawn. */
export interface Picture {
  readonly tree: GraphTree;
  readonly scene: Scene;
  readonly camera: Camera;
  readonly colours: Colours;
  readonly selected: number | null;
  readonly hovered: Hovered;
}

/** What boxes are coloured by. */
export interface Colours {
  readonly measure: Measure;
  readonly scale: HeatScale;
  /** By item, of everything that is in the picture. */
  readonly health: ReadonlyMap<number, Health>;
  /** By name, of each module that has a value of its own. */
  readonly own: ReadonlyMap<string, number>;
  /** Whether the values are still on their way. */
  readonly isLoading: boolean;
}

export function coloursOf(
  measure: Measure,
  health: ReadonlyMap<number, Health>,
  own: ReadonlyMap<string, number>,
  isLoading: boolean,
): Colours {
  return {
    measure,
    health,
    own,
    isLoading,
    scale: heatScale(measure.scale, Float32Array.from(own.values()), "robust"),
  };
}

const ramps = new Map<Palette["theme"], Ramp>();

function rampOf(theme: Palette["theme"]): Ramp {
  const ramp = ramps.get(theme) ?? sequentialRamp(theme);
  ramps.set(theme, ramp);
  return ramp;
}

export interface Fill {
  readonly ground: string;
  readonly text: string;
}

/** The colour of a value and one for text on it; null of what is not known. */
export function fillOf(value: number, scale: HeatScale, palette: Palette): Fill | null {
  const place = scale.place(value);
  if (Number.isNaN(place)) return null;
  const word = rampWord(rampOf(palette.theme), place);
  return { ground: wordToCss(word), text: lightnessOf(word) > 0.62 ? "#10141a" : "#ffffff" };
}
