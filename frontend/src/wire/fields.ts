/** Fields of JSON that somebody else has written: what is missing or odd does no harm. */

import { number, text } from "./json";

export type Json = Readonly<Record<string, unknown>>;

export function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function list<Item>(value: unknown, parse: (each: unknown) => Item): Item[] {
  return Array.isArray(value) ? value.map((each) => parse(each)) : [];
}

/** null for null, and for what is nothing. */
export function maybe<Item>(value: unknown, parse: (value: unknown) => Item): Item | null {
  return value ? parse(value) : null;
}

export function numbers(value: unknown): number[] {
  return Array.isArray(value) ? value.map(number) : [];
}

export function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(text) : [];
}

export function textsByName(value: unknown): Record<string, string> {
  return Object.fromEntries(Object.entries(object(value)).map(([name, each]) => [name, text(each)]));
}

export function maybeText(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

export function maybeNumber(value: unknown): number | null {
  return value === null || value === undefined ? null : number(value);
}

export function count(value: unknown): number {
  return number(value) || 0;
}

/** The first choice for anything else. */
export function oneOf<Choice extends string>(choices: readonly [Choice, ...Choice[]], value: unknown): Choice {
  return choices.find((each) => each === value) ?? choices[0];
}
