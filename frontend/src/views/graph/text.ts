import type { Palette } from "../../charts/palette";
import { fittedText } from "../../lib/graph-text";

export interface TextStyle {
  readonly font: string;
  readonly colour: string;
  /** It is shortened to this width. */
  readonly room: number;
  readonly align?: "left" | "right" | "center";
  /** Drawn around the letters, where they lie on something. */
  readonly halo?: string | null;
}

const fitted = new Map<string, readonly [text: string, width: number]>();
const MOST_REMEMBERED = 5000;

export function fontOf(palette: Palette, size: number, weight = 400): string {
  return `${weight} ${size}px ${palette.font}`;
}

/** How wide it came out. */
export function drawText(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  style: TextStyle,
): number {
  if (text === "" || style.room <= 0) return 0;
  context.font = style.font;
  const [shown, width] = fit(context, text, style);
  context.textAlign = style.align ?? "left";
  if (style.halo) {
    context.strokeStyle = style.halo;
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(shown, x, y);
  }
  context.fillStyle = style.colour;
  context.fillText(shown, x, y);
  return width;
}

/** How wide the beginning of a text would be; nobody needs to know more of a very long one. */
export function textWidth(context: CanvasRenderingContext2D, text: string, font: string): number {
  context.font = font;
  return context.measureText(text.slice(0, 40)).width;
}

function fit(context: CanvasRenderingContext2D, text: string, { font, room }: TextStyle): readonly [string, number] {
  const key = `${Math.round(room)} ${font} ${text.slice(0, 200)}`;
  const known = fitted.get(key);
  if (known) return known;
  const shown = fittedText(text, room, (part) => context.measureText(part).width);
  const found = [shown, context.measureText(shown).width] as const;
  if (fitted.size > MOST_REMEMBERED) fitted.clear();
  fitted.set(key, found);
  return found;
}
