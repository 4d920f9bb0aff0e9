/**
 * Colour ramps made by formula in OKLCH. Lightness alone carries the order, in even steps, so that a ramp reads
 * the same in grey and for every kind of colour vision; the hue only helps to tell neighbours apart.
 */

export type Theme = "light" | "dark";

/** 256 colours as 0xAABBGGRR words, the order in which canvas pixels lie in memory. */
export type Ramp = Uint32Array;

export const RAMP_SIZE = 256;

interface Oklch {
  lightness: number;
  chroma: number;
  hue: number;
}

type Rgb = readonly [number, number, number];

/** From what recedes into the page to what stands out of it: dark to bright, or on a light page bright to dark. */
export function sequentialRamp(theme: Theme): Ramp {
  return ramp((t) => {
    const height = theme === "dark" ? t : 1 - t;
    return {
      lightness: 0.24 + 0.7 * height,
      chroma: 0.09 + 0.1 * height * (1 - height) + 0.04 * height,
      hue: 295 - 190 * height,
    };
  });
}

/** Blue through the colour of the page to orange; both arms are equally far from the middle in lightness. */
export function divergingRamp(theme: Theme): Ramp {
  return ramp((t) => {
    const reach = Math.abs(2 * t - 1);
    return {
      lightness: theme === "dark" ? 0.27 + 0.53 * reach : 0.96 - 0.5 * reach,
      chroma: 0.15 * Math.sqrt(reach),
      hue: t < 0.5 ? 250 : 60,
    };
  });
}

/** The word of a place between 0 and 1; what lies outside is drawn as the nearer end. */
export function rampWord(colours: Ramp, place: number): number {
  const index = Math.round(Math.min(1, Math.max(0, place)) * (RAMP_SIZE - 1));
  return colours[index] ?? 0;
}

export function rampColour(colours: Ramp, place: number): string {
  return wordToCss(rampWord(colours, place));
}

export function wordToCss(word: number): string {
  return `rgb(${word & 255} ${(word >> 8) & 255} ${(word >> 16) & 255})`;
}

export function wordFromRgb(red: number, green: number, blue: number): number {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Of a colour written as #rgb or #rrggbb; a middle grey for any other way of writing. */
export function wordFromCss(colour: string): number {
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(colour.trim());
  const long = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})/i.exec(colour.trim());
  const parts = short ? short.slice(1).map((digit) => digit + digit) : (long?.slice(1) ?? ["80", "80", "80"]);
  const [red = 0, green = 0, blue = 0] = parts.map((part) => parseInt(part, 16));
  return wordFromRgb(red, green, blue);
}

/** Perceived lightness between 0 and 1, by which text on a colour is chosen and ramps are tested. */
export function lightnessOf(word: number): number {
  const linear = [word & 255, (word >> 8) & 255, (word >> 16) & 255].map((byte) => toLinear(byte / 255));
  return lightnessOfLinear(linear[0] ?? 0, linear[1] ?? 0, linear[2] ?? 0);
}

function ramp(colour: (t: number) => Oklch): Ramp {
  const words = new Uint32Array(RAMP_SIZE);
  for (let i = 0; i < RAMP_SIZE; i++) {
    const [red, green, blue] = inGamut(colour(i / (RAMP_SIZE - 1)));
    words[i] = wordFromRgb(toByte(red), toByte(green), toByte(blue));
  }
  return words;
}

/** Keeps lightness and hue, and gives up as much chroma as the screen cannot show. */
function inGamut(colour: Oklch): Rgb {
  let low = 0;
  let high = colour.chroma;
  if (isShown(linearRgb(colour))) return linearRgb(colour);
  for (let round = 0; round < 20; round++) {
    const middle = (low + high) / 2;
    if (isShown(linearRgb({ ...colour, chroma: middle }))) low = middle;
    else high = middle;
  }
  return linearRgb({ ...colour, chroma: low });
}

function isShown(rgb: Rgb): boolean {
  return rgb.every((part) => part >= 0 && part <= 1);
}

function linearRgb({ lightness, chroma, hue }: Oklch): Rgb {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * middle + 1.707614701 * short,
  ];
}

function lightnessOfLinear(red: number, green: number, blue: number): number {
  const long = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const middle = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const short = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return 0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short;
}

function toByte(linear: number): number {
  const encoded = linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055;
  return Math.round(255 * Math.min(1, Math.max(0, encoded)));
}

function toLinear(encoded: number): number {
  return encoded <= 0.04045 ? encoded / 12.92 : ((encoded + 0.055) / 1.055) ** 2.4;
}
