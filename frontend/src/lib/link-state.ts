/** The part of the page's state that a link carries, and its text. */

export const PAGES = ["overview", "layers", "histograms", "data", "resources", "graph", "debugger"] as const;
export type PageName = (typeof PAGES)[number];
export const AXES = ["step", "time", "samples"] as const;
export type Axis = (typeof AXES)[number];
export interface StepRange {
  readonly first: number;
  readonly last: number;
}

export interface LinkState {
  readonly page: PageName;
  readonly focus: string | null;
  /** null: as the page chooses by itself. */
  readonly chosen: readonly string[] | null;
  readonly range: StepRange | null;
  readonly axis: Axis;
  readonly smoothing: number;
  readonly logY: boolean;
  readonly rank: number;
  readonly params: Readonly<Record<string, string>>;
}

/** The name under which TensorBoard's router knows us; what follows is ours by its convention. */
export const OWNER = "netdebug";
const PREFIX = `p.${OWNER}.`;
/** A link that names more than this would not be copied by anybody. */
const MOST_RUNS = 30;
const MOST_TEXT = 2000;
const MOST_PARAMS = 40;

/** Only what differs from the beginning is written, so that links stay short. */
export function encodeState(state: LinkState): string {
  const parts: [string, string][] = [];
  const put = (name: string, value: string, usual = ""): void => {
    if (value !== usual) parts.push([name, value]);
  };
  put("page", state.page, "overview");
  put("run", state.focus ?? "");
  if (state.chosen !== null && state.chosen.length <= MOST_RUNS && state.chosen.join("").length <= MOST_TEXT) {
    if (state.chosen.length === 0) put("with", "-none-");
    for (const name of state.chosen) put("with", name);
  }
  put("range", state.range ? `${state.range.first}~${state.range.last}` : "");
  put("axis", state.axis, "step");
  put("smoothing", String(state.smoothing), "0");
  put("log", state.logY ? "1" : "");
  put("rank", String(state.rank), "0");
  for (const [name, value] of Object.entries(state.params)) put(`v.${name}`, value);
  return [`#${OWNER}`, ...parts.map(([name, value]) => `${PREFIX}${name}=${encode(value)}`)].join("&");
}

/** Readable where it may be: slashes and the like need no escape in a hash. */
function encode(value: string): string {
  return encodeURIComponent(value).replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%2C/g, ",");
}

/** null when the link is not ours or says nothing. A wrong part of a link is passed over. */
export function decodeState(hash: string): LinkState | null {
  const [owner, ...pieces] = hash.replace(/^#/, "").split("&");
  if (owner !== OWNER || pieces.length === 0) return null;
  const found = pieces.flatMap((piece) => pair(piece));
  const one = (name: string): string | null => found.find(([key]) => key === name)?.[1] ?? null;
  const chosen = found.filter(([key]) => key === "with").map(([, value]) => value);
  return {
    page: PAGES.find((page) => page === one("page")) ?? "overview",
    focus: one("run"),
    chosen: chosen.length === 0 ? null : chosen.filter((name) => name !== "-none-"),
    range: rangeOf(one("range")),
    axis: AXES.find((axis) => axis === one("axis")) ?? "step",
    smoothing: Math.min(Math.max(Number(one("smoothing")) || 0, 0), 0.99),
    logY: one("log") === "1",
    rank: Math.max(0, Math.floor(Number(one("rank")) || 0)),
    params: Object.fromEntries(
      found
        .filter(([key]) => key.startsWith("v."))
        .slice(0, MOST_PARAMS)
        .map(([key, value]) => [key.slice(2), value]),
    ),
  };
}

function pair(piece: string): [name: string, value: string][] {
  const equals = piece.indexOf("=");
  if (!piece.startsWith(PREFIX) || equals < 0) return [];
  try {
    return [[piece.slice(PREFIX.length, equals), decodeURIComponent(piece.slice(equals + 1))]];
  } catch {
    return [];
  }
}

function rangeOf(text: string | null): StepRange | null {
  const found = /^(-?\d+)~(-?\d+)$/.exec(text ?? "");
  const [first, last] = [Number(found?.[1]), Number(found?.[2])];
  return found && first <= last ? { first, last } : null;
}
