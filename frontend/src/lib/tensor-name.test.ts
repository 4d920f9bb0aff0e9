import { expect, it } from "vitest";
import { shownName } from "./tensor-name";

it("shows ordinary names of any script as they are", () => {
  for (const name of ["encoder.layers.0.weight", "درب-شبكة.bias", "層.重み", "</script>.weight"])
    expect(shownName(name)).toBe(name);
});

it("makes visible what hides or turns letters", () => {
  expect(shownName("a\u202eb\nc\u200b")).toBe("a\ufffdb\ufffdc\ufffd");
});

it("keeps both ends of a very long name", () => {
  const shown = shownName(`start${"x".repeat(10000)}.weight`);
  expect(shown.length).toBeLessThan(310);
  expect(shown).toMatch(/^start.*….*\.weight$/);
});

it("never shows nothing", () => {
  expect(shownName("")).toBe("(no name)");
  expect(shownName(" ")).toBe("(no name)");
});
