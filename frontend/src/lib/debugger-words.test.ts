import { describe, expect, it } from "vitest";
import { parseSessions, parseState } from "../wire/debugger-json";
import type { DebuggerState, Place } from "../wire/debugger-types";
import {
  conditionWords,
  exactPattern,
  isFound,
  pausedWords,
  placeWords,
  statusWords,
  unseenBatchWords,
} from "./debugger-words";

function place(with_: Partial<Place>): Place {
  const nowhere = { class_name: null, op: null, number: 0, file: null, line: 0, function: "" };
  return { phase: "forward", module: null, edge: "before", ...nowhere, ...with_ };
}

describe("where a training is", () => {
  it("is said of layers, operations and phases", () => {
    expect(placeWords(place({ module: "encoder.2" }))).toBe("before encoder.2");
    expect(placeWords(place({ module: "encoder.2", edge: "after", phase: "backward" }))).toBe(
      "in the backward pass, after encoder.2",
    );
    expect(placeWords(place({ module: "encoder.2", op: "aten.addmm.default" }))).toBe(
      "before aten.addmm.default in encoder.2",
    );
    expect(placeWords(place({ phase: "optimizer", edge: "after" }))).toBe("after the optimizer's step");
    expect(placeWords(place({ phase: "end" }))).toBe("at its end");
    expect(placeWords(place({ phase: "code", file: "/home/ada/train.py", line: 9 }))).toBe(
      "at nd.breakpoint() in train.py:9",
    );
  });
});

describe("the status", () => {
  const paused = { status: "paused", step: 812, place: place({ module: "a" }), reason: { text: "You asked for it." } };

  it("says where it is paused, and why", () => {
    expect(statusWords(parseState(paused), true)).toEqual({
      tone: "paused",
      text: "Paused in batch 812, before a",
      why: "You asked for it.",
    });
  });

  it("goes on with a reason that is no sentence", () => {
    const state = parseState({ ...paused, reason: { text: "you asked for it" } });
    expect(statusWords(state, true).why).toBe("because you asked for it");
  });

  it("says for how long, wherever else its run is shown", () => {
    const state = parseState({ ...paused, paused_at: 1000 });
    expect(pausedWords(state, 1185)).toBe(
      "Paused in batch 812, before a, for 3 min. To continue it, open the Debugger page.",
    );
  });

  it("of a lost connection says that it is old", () => {
    expect(statusWords(parseState(paused), false)).toMatchObject({
      tone: "lost",
      text: "Last seen in batch 812, before a",
    });
  });
});

describe("a batch of which nothing is to be seen", () => {
  const { session } = parseSessions({ sessions: [{ key: "k", session: { can: ["batch", "layer"] } }] }).sessions[0]!;
  const at = (phase: string): DebuggerState => parseState({ place: place({ phase }) });

  it("comes with the next step when the training has not begun", () => {
    const words = "The model has no input yet; it gets one in the next step";
    expect(unseenBatchWords({ session, state: at("start") })).toBe(`${words} (F10 steps to its first layer).`);
    expect(unseenBatchWords({ session: { ...session, can: ["batch"] }, state: at("start") })).toBe(`${words}.`);
  });

  it("was not looked at, else", () => {
    expect(unseenBatchWords({ session, state: at("end") })).toContain(
      "was not captured in this batch; it will be in the next one",
    );
  });
});

it("a condition reads like a sentence, and without a threshold it has no sign", () => {
  const condition = { kind: "output_gradient", statistic: "abs_max", comparison: ">", threshold: 100 };
  expect(conditionWords(condition)).toBe("output gradient: abs max > 100");
  expect(conditionWords({ ...condition, statistic: "nonfinite", comparison: "is" })).toBe(
    "output gradient: NaN or Inf",
  );
});

it("the pattern of a layer finds it alone, whatever its name", () => {
  expect(isFound(exactPattern("a.b[0]"), "a.b[0]")).toBe(true);
  expect(isFound(exactPattern("a.b"), "axb")).toBe(false);
  expect(isFound(exactPattern("a.b"), "a.b.c")).toBe(false);
});

it("a pattern that cannot be read finds nothing", () => {
  expect(isFound("(?P<x>", "x")).toBe(false);
  expect(isFound(null, "x")).toBe(false);
});

it("a pattern that a training sent cannot keep the page busy", () => {
  const name = "a".repeat(300);
  for (const pattern of ["(a+)+!", "(a|a)*b", ".*.*.*.*\\b!", "a?".repeat(40) + "a{40}", "(.*)\\1!"]) {
    expect(isFound(pattern, name)).toBe(false);
  }
  expect(isFound("^encoder\\..*weight$", "encoder.0.weight")).toBe(true);
});
