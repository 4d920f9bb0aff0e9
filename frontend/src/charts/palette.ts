/** The tokens that canvases draw with, read from the style sheet once a theme. */

export interface Palette {
  readonly theme: "light" | "dark";
  readonly text: string;
  readonly muted: string;
  readonly faint: string;
  readonly line: string;
  readonly grid: string;
  readonly surface: string;
  readonly sunken: string;
  readonly accent: string;
  readonly good: string;
  readonly warning: string;
  readonly bad: string;
  /** For `context.font`: `${size}px ${font}`. */
  readonly font: string;
}

const known = new Map<string, Palette>();

export function paletteOf(theme: "light" | "dark"): Palette {
  const found = known.get(theme) ?? read(theme);
  known.set(theme, found);
  return found;
}

function read(theme: "light" | "dark"): Palette {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    theme,
    text: token("text"),
    muted: token("text-muted"),
    faint: token("text-faint"),
    line: token("line-strong"),
    grid: token("grid"),
    surface: token("surface"),
    sunken: token("surface-sunken"),
    accent: token("accent"),
    good: token("good"),
    warning: token("warning"),
    bad: token("bad"),
    font: token("font"),
  };
}
