import { describe, expect, it } from "vitest";
import { firstChoice } from "./first-choice";
import { groupScalars, titleOf } from "./scalars";
import { searchFor } from "./search";
import { sortRuns } from "./sort-runs";

const run = (
  name: string,
  { started = 0, state = "ended", loss = null as number | null, steps = null as number | null } = {},
) => ({ name, started, state, loss, steps });
const NOBODY = { chosen: [], focus: null, byUser: false };

describe("searching for runs", () => {
  const names = ["sweep/lr=0.1", "sweep/lr=0.01", "Baseline 2"];
  const found = (text: string): string[] => names.filter(searchFor(text).matches);

  it("takes parts of names, in any order and case", () => {
    expect(found("")).toEqual(names);
    expect(found("  BASE 2")).toEqual(["Baseline 2"]);
    expect(found("0.1 sweep")).toEqual(["sweep/lr=0.1"]);
  });

  it("takes regular expressions between slashes", () => {
    expect(found("/lr=0\\.1$/")).toEqual(["sweep/lr=0.1"]);
    expect(found("/^base|01$")).toEqual(["sweep/lr=0.01", "Baseline 2"]);
  });

  it("says what is wrong with one, and hides nothing then", () => {
    for (const text of ["/(/", "/(a+)+$/", "/(a|a)*b/", "/(.)\\1/", "/.*.*.*.*x/"]) {
      expect(searchFor(text).complaint).toBeTruthy();
      expect(found(text)).toEqual(names);
    }
  });
});

describe("sorting runs", () => {
  const runs = [
    run("run 10", { loss: NaN, steps: 5 }),
    run("run 9", { started: 3, loss: 0.5 }),
    run("b", { started: 1, loss: 0.1, steps: 9 }),
  ];
  const names = (order: Parameters<typeof sortRuns>[1]): string[] => sortRuns(runs, order).map((each) => each.name);

  it("knows four orders; what has no number comes last", () => {
    expect(names("name")).toEqual(["b", "run 9", "run 10"]);
    expect(names("newest")).toEqual(["run 9", "b", "run 10"]);
    expect(names("loss")).toEqual(["b", "run 9", "run 10"]);
    expect(names("steps")).toEqual(["b", "run 10", "run 9"]);
  });
});

describe("the first choice", () => {
  it("is what trains now, the newest in focus", () => {
    const runs = [run("old"), run("a", { started: 1, state: "live" }), run("b", { started: 2, state: "live" })];
    expect(firstChoice(runs, NOBODY)).toMatchObject({ chosen: ["b", "a"], focus: "b" });
  });

  it("is the newest few when nothing trains", () => {
    const runs = Array.from({ length: 9 }, (_, index) => run(`run ${index}`, { started: index }));
    expect(firstChoice(runs, NOBODY).chosen).toEqual(["run 8", "run 7", "run 6", "run 5"]);
  });

  it("lets runs join that begin later, and keeps those that end", () => {
    const before = firstChoice([run("a", { state: "live" })], NOBODY);
    const later = firstChoice([run("a"), run("b", { started: 5, state: "live" })], before);
    expect(later).toMatchObject({ chosen: ["a", "b"], focus: "a" });
  });

  it("draws the run that a link leads to, also when others train", () => {
    const runs = [run("old"), ...Array.from({ length: 7 }, (_, index) => run(`live ${index}`, { state: "live" }))];
    const found = firstChoice(runs, { ...NOBODY, focus: "old" });
    expect(found.focus).toBe("old");
    expect(found.chosen).toEqual(["old", "live 0", "live 1", "live 2", "live 3", "live 4"]);
  });

  it("leaves alone what was chosen by hand", () => {
    const byHand = { chosen: ["a"], focus: "a", byUser: true };
    expect(firstChoice([run("a"), run("b", { state: "live" })], byHand)).toEqual(byHand);
    expect(firstChoice([run("b")], { chosen: [], focus: "gone", byUser: true })).toEqual({
      chosen: [],
      focus: "b",
      byUser: true,
    });
  });
});

describe("scalars", () => {
  it("come in groups, with titles in words", () => {
    const groups = groupScalars(["loss", "time/step", "scalar/accuracy", "memory/gpu1/used", "x/y", "lr/1", "odd"]);
    expect(groups).toEqual([
      { title: "Loss and metrics", names: ["loss", "scalar/accuracy"] },
      { title: "Optimization", names: ["lr/1"] },
      { title: "Time and batches", names: ["time/step"] },
      { title: "Memory and devices", names: ["memory/gpu1/used"] },
      { title: "x", names: ["x/y"] },
      { title: "Scalars", names: ["odd"] },
    ]);
    expect(["scalar/accuracy", "lr/1", "memory/gpu1/used", "memory/pss", "time/data", "x/y"].map(titleOf)).toEqual([
      "accuracy",
      "Learning rate of group 1",
      "GPU 1: used",
      "PSS of this process",
      "Waiting for data",
      "x/y",
    ]);
  });
});
