import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { categorical, PALETTE_NAMES } from "./colour";

const css = readFileSync(new URL("../style/tokens.css", import.meta.url), "utf-8");
const THEMES = ["light", "dark"] as const;

/** The colour tokens of a theme; the dark one overrides the light one. */
function tokens(theme: "light" | "dark"): Map<string, string> {
  const [light = "", dark = ""] = css.split('[data-theme="dark"]');
  const text = theme === "light" ? light : light + dark;
  return new Map([...text.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map(([, name = "", value = ""]) => [name, value]));
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
}

const linear = (value: number): number => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map(linear);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** As the guidelines for accessible web content measure it. */
function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// Machado, Oliveira and Fernandes (2009), full strength, on linear light.
const BLINDNESS: Readonly<Record<string, readonly number[]>> = {
  protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
};

/** Distance in Oklab times 100, as an eye with this matrix sees it. */
function distance(one: string, other: string, matrix: readonly number[]): number {
  const [a, b] = [one, other].map((colour) => oklab(seen(channels(colour).map(linear), matrix)));
  return 100 * Math.hypot(...(a ?? []).map((value, index) => value - (b?.[index] ?? 0)));
}

function seen(light: readonly number[], matrix: readonly number[]): number[] {
  return [0, 3, 6].map((row) =>
    Math.max(
      0,
      light.reduce((sum, value, column) => sum + value * (matrix[row + column] ?? 0), 0),
    ),
  );
}

function oklab([r = 0, g = 0, b = 0]: readonly number[]): number[] {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

describe.each(THEMES)("colours of the %s theme", (theme) => {
  const of = tokens(theme);
  const colour = (name: string): string => of.get(name) ?? "";

  it.each(["text", "text-muted", "text-faint", "accent", "good", "warning", "bad"])(
    "%s can be read on every ground",
    (name) => {
      for (const ground of ["surface", "ground", "surface-raised"]) {
        expect(contrast(colour(name), colour(ground))).toBeGreaterThanOrEqual(4.5);
      }
    },
  );

  it.each(["text", "text-muted", "good", "bad"])("%s can be read on a chosen row", (name) => {
    expect(contrast(colour(name), colour("selected"))).toBeGreaterThanOrEqual(4.5);
  });

  it("of lines stand out from the ground", () => {
    for (const line of categorical(theme)) expect(contrast(line, colour("surface"))).toBeGreaterThanOrEqual(3);
  });

  it("of lines stay apart for the colour blind, the first ones clearly", () => {
    const lines = categorical(theme);
    expect(lines.length).toBe(PALETTE_NAMES.length);
    for (const [kind, matrix] of Object.entries(BLINDNESS)) {
      for (const [index, line] of lines.entries()) {
        for (const [before, earlier] of lines.slice(0, index).entries()) {
          const least = index < 4 ? 12 : 7;
          expect(
            distance(line, earlier, matrix),
            `${kind}: ${PALETTE_NAMES[index]} and ${PALETTE_NAMES[before]}`,
          ).toBeGreaterThan(least);
        }
      }
    }
  });
});
