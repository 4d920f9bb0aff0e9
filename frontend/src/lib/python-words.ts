/** The words of a line of Python, as far as a faint tint needs them: lines are looked at one by one. */

export type WordKind = "keyword" | "text" | "comment" | "number" | "plain";

export interface Word {
  readonly kind: WordKind;
  readonly text: string;
}

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda match nonlocal not or pass raise return self try while with yield"
  ).split(" "),
);
// Comments, texts, numbers, and names, among which the keywords are.
const PIECES =
  /(#.*)|([rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\])*(?:"|$)|'(?:\\.|[^'\\])*(?:'|$)))|(\b\d(?:[eE][+-]|[\w.])*)|([\p{L}_][\p{L}\p{N}_]*)/gu;
/** Longer lines are data, not code. */
const LONGEST = 2000;

export function pythonWords(line: string): Word[] {
  if (line.length > LONGEST) return [{ kind: "plain", text: line }];
  const words: Word[] = [];
  let end = 0;
  for (const found of line.matchAll(PIECES)) {
    const kind = kindOf(found);
    if (kind === "plain") continue;
    if (found.index > end) words.push({ kind: "plain", text: line.slice(end, found.index) });
    words.push({ kind, text: found[0] });
    end = found.index + found[0].length;
  }
  if (end < line.length) words.push({ kind: "plain", text: line.slice(end) });
  return words;
}

function kindOf([whole, comment, text, number]: RegExpExecArray): WordKind {
  if (comment !== undefined) return "comment";
  if (text !== undefined) return "text";
  if (number !== undefined) return "number";
  return KEYWORDS.has(whole) ? "keyword" : "plain";
}
