/** Names of tensors, scalars and runs as they are shown. They come from files that anybody may have written. */

/** Nobody reads more of a name than this; the rest only costs layout. */
const LONGEST = 300;

/** Without what cannot be seen or turns the letters behind it around; the middle of a very long name is left out. */
export function shownName(name: string): string {
  if (name.trim() === "") return "(no name)";
  const short = name.length > LONGEST ? `${name.slice(0, LONGEST / 2)}…${name.slice(-LONGEST / 2)}` : name;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is made visible
  return short.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");
}
