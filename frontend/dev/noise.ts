/** Numbers that look random and are the same each time. */

export function hash(...keys: readonly (string | number)[]): number {
  let state = 2166136261;
  for (const character of keys.join("|")) state = Math.imul(state ^ character.charCodeAt(0), 16777619);
  state ^= state >>> 15;
  state = Math.imul(state, 2246822519);
  state ^= state >>> 13;
  state = Math.imul(state, 3266489917);
  return ((state ^ (state >>> 16)) >>> 0) / 4294967296;
}

/** About normal, mean 0 and deviation 1. */
export function noise(...keys: readonly (string | number)[]): number {
  let sum = -3;
  for (let part = 0; part < 6; part++) sum += hash(...keys, part);
  return sum * Math.SQRT2;
}
