import { expect, test } from "vitest";
import { fittedText, plainName, shapesText, shapeText } from "./graph-text";

const byLength = (text: string): number => text.length;

test("shapes are short, whatever they are", () => {
  expect(shapeText([32, 64])).toBe("32×64");
  expect(shapeText([])).toBe("scalar");
  expect(shapeText(new Array<number>(20).fill(1)).endsWith("×…")).toBe(true);
  expect(shapesText([])).toBe("");
  expect(
    shapesText([
      { shape: [2], dtype: "f" },
      { shape: [3], dtype: "f" },
    ]),
  ).toBe("2 +1");
});

test("names cannot turn the writing direction or break the line", () => {
  expect(plainName("a\u202Eb\nc\u2066d")).toBe("a b c d");
  expect(plainName("x".repeat(10_000)).length).toBeLessThan(200);
});

test("text is shortened in the middle until it fits", () => {
  expect(fittedText("short", 10, byLength)).toBe("short");
  const fitted = fittedText("transformer.encoder.layers.11.attention", 16, byLength);
  expect(fitted.length).toBeLessThanOrEqual(16);
  expect(fitted.startsWith("transf")).toBe(true);
  expect(fitted.endsWith("tion")).toBe(true);
  expect(fittedText("anything", 0, byLength)).toBe("");
});
