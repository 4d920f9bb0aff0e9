/** Colours that stay apart for colour-blind eyes. Hue is never the only carrier of a meaning. */

export type Rgb = readonly [red: number, green: number, blue: number];

// Okabe and Ito's eight, darkened for a light ground and lightened for a dark one until lines have a contrast of 3.
const LIGHT = ["#0072b2", "#d55e00", "#008565", "#b5477d", "#8a6d00", "#2b87b8", "#5b4bb3", "#4d5560"] as const;
const DARK = ["#4fb0f5", "#ff9152", "#2fc79a", "#f088bd", "#e6b83c", "#7fd4f7", "#a99bf5", "#aab3c0"] as const;

export function categorical(theme: "light" | "dark"): readonly string[] {
  return theme === "dark" ? DARK : LIGHT;
}

// Cividis-like and viridis-like ramps by a few stops; between them we mix in linear steps of sRGB.
const SEQUENTIAL: readonly Rgb[] = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
  [170, 220, 50], [253, 231, 37],
];
const DIVERGING: readonly Rgb[] = [
  [8, 69, 148], [33, 113, 181], [86, 157, 209], [158, 202, 225], [235, 236, 238], [253, 200, 144], [245, 150, 66],
  [217, 95, 14], [153, 52, 4],
];

/** 0 … 1 from dark violet to yellow. */
export function sequential(t: number): Rgb {
  return ramp(SEQUENTIAL, t);
}

/** 0 … 1 from blue over light grey (0.5) to orange. */
export function diverging(t: number): Rgb {
  return ramp(DIVERGING, t);
}

function ramp(stops: readonly Rgb[], t: number): Rgb {
  const place = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  const [below, above] = [stops[index] ?? [0, 0, 0], stops[index + 1] ?? [0, 0, 0]];
  const mix = (a: number, b: number): number => Math.round(a + (b - a) * (place - index));
  return [mix(below[0], above[0]), mix(below[1], above[1]), mix(below[2], above[2])];
}

export function css([red, green, blue]: Rgb, alpha = 1): string {
  return alpha === 1 ? `rgb(${red},${green},${blue})` : `rgba(${red},${green},${blue},${alpha})`;
}
