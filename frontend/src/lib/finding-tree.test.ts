import { expect, it } from "vitest";
import type { Finding, Severity } from "../wire/types";
import { findingTree } from "./finding-tree";

const finding = (
  rule: string,
  severity: Severity,
  cause: string | null = null,
  consequences: readonly string[] = [],
): Finding => ({
  rule,
  severity,
  first_step: 3,
  last_step: 4,
  where: [],
  message: "",
  evidence: {},
  advice: "",
  sureness: 0.9,
  cause,
  consequences,
});

it("keeps the order, puts causes first, each with what it explains, and notes apart", () => {
  const tree = findingTree([
    finding("loss-spike", "error"),
    finding("vanishing-gradients", "error", null, ["unchanged-weights", "loss-at-chance"]),
    finding("loss-plateau", "info"),
    finding("loss-at-chance", "error", "vanishing-gradients"),
    finding("unchanged-weights", "warning", "vanishing-gradients"),
  ]);
  expect(tree.causes.map((each) => each.rule)).toEqual(["loss-spike", "vanishing-gradients"]);
  expect(tree.notes.map((each) => each.rule)).toEqual(["loss-plateau"]);
  expect(tree.causes.map((each) => tree.explainedBy(each).map(({ rule }) => rule))).toEqual([
    [],
    ["unchanged-weights", "loss-at-chance"],
  ]);
});
