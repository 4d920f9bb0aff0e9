import { describe, expect, it } from "vitest";
import type { Finding } from "../wire/types";
import { findingMarks, isPartOf } from "./finding-marks";

const base: Finding = {
  rule: "dead-units",
  severity: "warning",
  first_step: 40,
  last_step: 90,
  where: [],
  message: "",
  evidence: {},
  advice: "",
  sureness: 0.9,
  cause: null,
  consequences: [],
};

describe("findings on the heat map", () => {
  it("knows the parts of a layer", () => {
    expect(["a.1.weight", "a.1[0]", "a.1", "a.10.weight", "b.a.1"].map((name) => isPartOf(name, "a.1"))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect(isPartOf("a", "")).toBe(false);
  });

  it("joins what is found in one place: the worst severity, the first step", () => {
    const marks = findingMarks(
      [
        { ...base, where: ["a"] },
        { ...base, rule: "nonfinite-weight", severity: "error", first_step: 70, where: ["a.weight"] },
        { ...base, rule: "input-scale", severity: "info", where: ["b"] },
      ],
      ["a.weight", "a.bias", "b.weight"],
    );
    expect([...marks]).toEqual([
      ["a.weight", { step: 40, severity: "error", rules: ["dead-units", "nonfinite-weight"] }],
      ["a.bias", { step: 40, severity: "warning", rules: ["dead-units"] }],
    ]);
  });
});
