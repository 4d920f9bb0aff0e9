import { expect, it } from "vitest";
import type { Finding, Severity } from "../wire/types";
import { findingTree } from "./finding-tree";

const finding = (rule: string, severity: Severity, first_step: number, cause: string | null = null): Finding => ({
  rule,
  severity,
  first_step,
  last_step: first_step,
  where: [],
  message: "",
  evidence: {},
  advice: "",
  sureness: 0.9,
  cause,
  consequences: [],
});

it("puts causes first, by the worst of what they explain, and notes apart", () => {
  const tree = findingTree([
    finding("dead-units", "warning", 3),
    finding("loss-at-chance", "error", 9, "vanishing-gradients"),
    finding("unchanged-weights", "warning", 7, "vanishing-gradients"),
    finding("vanishing-gradients", "warning", 5),
    finding("loss-plateau", "info", 0),
    finding("loss-spike", "error", 4),
  ]);
  expect(tree.causes.map((each) => each.rule)).toEqual(["loss-spike", "vanishing-gradients", "dead-units"]);
  expect(tree.notes.map((each) => each.rule)).toEqual(["loss-plateau"]);
  const [, cause] = tree.causes;
  expect(cause && tree.explainedBy(cause).map((each) => each.rule)).toEqual(["unchanged-weights", "loss-at-chance"]);
});

it("shows also a finding whose cause is not there", () => {
  expect(findingTree([finding("dead-units", "warning", 3, "elsewhere")]).causes).toHaveLength(1);
});

it("comes to an end where causes go round in a circle", () => {
  const tree = findingTree([
    finding("own", "error", 0, "own"),
    finding("a", "error", 1, "b"),
    finding("b", "error", 2, "a"),
    finding("below", "error", 3, "a"),
  ]);
  expect(tree.causes.map((each) => each.rule)).toEqual(["own", "a", "b"]);
  expect(tree.causes.map((each) => tree.explainedBy(each).length)).toEqual([0, 1, 0]);
});
