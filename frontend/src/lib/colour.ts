/** Colours that stay apart for colour-blind eyes. Hue is never the only carrier of a meaning. */

// Found by a search for the greatest distances as protanopes, deuteranopes and others see them, at a contrast of
// at least 3 to the ground; the first four stay farthest apart. colour.test.ts measures it.
const LIGHT = ["#1c4fa3", "#ee6111", "#15a58a", "#8c1c4d", "#865f09", "#008ab0", "#917fe7", "#626b79"] as const;
const DARK = ["#4c8fff", "#ff8f1d", "#80d7c0", "#d75090", "#b17d1d", "#0092b3", "#baa1f5", "#a6a6a6"] as const;

export function categorical(theme: "light" | "dark"): readonly string[] {
  return theme === "dark" ? DARK : LIGHT;
}

/** What the colours are called, in the order of the palette. */
export const PALETTE_NAMES = ["blue", "orange", "teal", "berry", "ochre", "cyan", "lilac", "slate"] as const;
