/** Finding names by a part of them, or by /a regular expression/ whose cost cannot run away. */

export interface Search {
  readonly matches: (name: string) => boolean;
  /** Why the expression is not used; everything matches then. */
  readonly complaint: string | null;
}

export const LONGEST_NAME = 300;
const EVERYTHING = (): boolean => true;

export function searchFor(text: string): Search {
  const wanted = text.trim();
  if (wanted === "") return { matches: EVERYTHING, complaint: null };
  const expression = /^\/(.*?)\/?$/s.exec(wanted)?.[1];
  if (expression === undefined || wanted.length < 2) return words(wanted);
  const complaint = problemOf(expression);
  if (complaint !== null) return { matches: EVERYTHING, complaint };
  const pattern = new RegExp(expression, "iu");
  return { matches: (name) => pattern.test(name.slice(0, LONGEST_NAME)), complaint: null };
}

/** Every word has to be in the name, in any order. */
function words(text: string): Search {
  const parts = text.toLowerCase().split(/\s+/);
  return {
    matches: (name) => {
      const low = name.toLowerCase();
      return parts.every((part) => low.includes(part));
    },
    complaint: null,
  };
}

/** The browser's engine backtracks: what could take more than about n² steps is refused. */
function problemOf(expression: string): string | null {
  try {
    new RegExp(expression, "iu");
  } catch {
    return "This is not a complete regular expression yet.";
  }
  return costOf(expression, 3);
}

/** Whether an expression that somebody else has sent can be tried on a long name: it must not keep the page busy. */
export function isQuick(expression: string): boolean {
  return costOf(expression, 2) === null;
}

function costOf(expression: string, mostRepetitions: number): string | null {
  const plain = expression.replace(/\\[^1-9k]/g, "x").replace(/\[[^\]]*\]/g, "x");
  if (/\\[1-9k]/.test(plain)) return "Backreferences are not supported here.";
  if (/\)[*+{]/.test(plain)) return "A repeated group is not supported here.";
  const repetitions = plain.match(/[*+]|\{\d+,\d*\}/g) ?? [];
  if (repetitions.length > mostRepetitions || (plain.match(/\?/g) ?? []).length > 8)
    return "Use at most three repetitions.";
  return null;
}
