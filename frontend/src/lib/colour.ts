/** Colours that stay apart for colour-blind eyes. Hue is never the only carrier of a meaning. */

// Okabe and Ito's eight, darkened for a light ground and lightened for a dark one until lines have a contrast of 3.
const LIGHT = ["#0072b2", "#d55e00", "#008565", "#b5477d", "#8a6d00", "#2b87b8", "#5b4bb3", "#4d5560"] as const;
const DARK = ["#4fb0f5", "#ff9152", "#2fc79a", "#f088bd", "#e6b83c", "#7fd4f7", "#a99bf5", "#aab3c0"] as const;

export function categorical(theme: "light" | "dark"): readonly string[] {
  return theme === "dark" ? DARK : LIGHT;
}

/** What the colours are called, in the order of the palette. */
export const PALETTE_NAMES = ["blue", "orange", "green", "pink", "ochre", "sky", "violet", "slate"] as const;
