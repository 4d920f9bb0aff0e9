import { describe, expect, it } from "vitest";
import {
  divergingRamp,
  lightnessOf,
  rampColour,
  rampWord,
  RAMP_SIZE,
  sequentialRamp,
  wordFromCss,
  wordToCss,
} from "./colourmap";

type Vision = readonly (readonly [number, number, number])[];

// How linear RGB looks to people who lack one kind of cone (the projections of Viénot, Brettel and Mollon).
const PROTANOPIA: Vision = [
  [0.11238, 0.88762, 0],
  [0.11238, 0.88762, 0],
  [0.00401, -0.00401, 1],
];
const DEUTERANOPIA: Vision = [
  [0.29275, 0.70725, 0],
  [0.29275, 0.70725, 0],
  [-0.02234, 0.02234, 1],
];

function seen(word: number, vision: Vision): number[] {
  const linear = [0, 8, 16].map((shift) => (((word >>> shift) & 255) / 255) ** 2.2);
  const projected = vision.map((row) => row.reduce((sum, weight, i) => sum + weight * (linear[i] ?? 0), 0));
  return projected.map((part) => Math.max(0, part) ** (1 / 2.2));
}

function distance(a: number[], b: number[]): number {
  return Math.hypot(...a.map((part, i) => part - (b[i] ?? 0)));
}

describe("sequential ramp", () => {
  it.each(["light", "dark"] as const)("rises evenly in lightness from the page's own colour (%s)", (theme) => {
    const steps = Array.from(sequentialRamp(theme), lightnessOf).map((l) => (theme === "dark" ? l : 1 - l));
    const average = ((steps.at(-1) ?? 0) - (steps[0] ?? 0)) / (RAMP_SIZE - 1);
    expect(average).toBeGreaterThan(0.002);
    for (let i = 16; i < RAMP_SIZE; i += 16) {
      const rise = (steps[i] ?? 0) - (steps[i - 16] ?? 0);
      expect(rise / (16 * average)).toBeCloseTo(1, 0);
      expect(rise).toBeGreaterThan(0);
    }
  });

  it("keeps a sixteenth of its length apart for people without red or green cones", () => {
    const colours = sequentialRamp("dark");
    for (const vision of [PROTANOPIA, DEUTERANOPIA]) {
      for (let i = 16; i < RAMP_SIZE; i += 16) {
        expect(distance(seen(colours[i] ?? 0, vision), seen(colours[i - 16] ?? 0, vision))).toBeGreaterThan(0.03);
      }
    }
  });
});

describe("diverging ramp", () => {
  it.each(["light", "dark"] as const)("has arms that mirror each other in lightness (%s)", (theme) => {
    const colours = divergingRamp(theme);
    for (let i = 0; i < RAMP_SIZE / 2; i++) {
      const left = lightnessOf(colours[i] ?? 0);
      expect(left).toBeCloseTo(lightnessOf(colours[RAMP_SIZE - 1 - i] ?? 0), 1);
    }
  });

  it.each([{ vision: PROTANOPIA }, { vision: DEUTERANOPIA }])("has ends that nobody confuses", ({ vision }) => {
    for (const theme of ["light", "dark"] as const) {
      const colours = divergingRamp(theme);
      expect(distance(seen(rampWord(colours, 0), vision), seen(rampWord(colours, 1), vision))).toBeGreaterThan(0.4);
    }
  });
});

it("draws places outside as the nearer end", () => {
  const colours = sequentialRamp("light");
  expect(rampWord(colours, -3)).toBe(colours[0]);
  expect(rampWord(colours, 7)).toBe(colours[RAMP_SIZE - 1]);
  expect(rampColour(colours, 0)).toMatch(/^rgb\(\d+ \d+ \d+\)$/);
});

it("reads colours as the style sheet writes them", () => {
  expect(wordToCss(wordFromCss("#eef0f3"))).toBe("rgb(238 240 243)");
  expect(wordFromCss(" #FA0 ")).toBe(wordFromCss("#ffaa00"));
  expect(wordToCss(wordFromCss("papayawhip"))).toBe("rgb(128 128 128)");
});
