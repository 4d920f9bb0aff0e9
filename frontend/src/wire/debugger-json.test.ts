import { describe, expect, it } from "vitest";
import { parseNews, parseSessions, parseState, parseTensorView } from "./debugger-json";

const PLACE = {
  phase: "forward",
  module: "encoder.0",
  class_name: "Linear",
  edge: "before",
  op: null,
  number: 3,
  file: "/home/ada/train.py",
  line: 12,
  function: "forward",
};
const ENTRY = {
  key: "a1",
  session: { run: ["sweep", "lr-1"], rank: 1, world_size: 2, group: "g", can: ["batch"], models: { model: "Net" } },
  state: { version: 7, status: "paused", step: 812, place: PLACE, loss: "NaN", resumes_at: null },
  holder: { client: "0123456789abcdef", label: "Anna" },
  clients: 2,
  is_connected: true,
};

describe("sessions", () => {
  it("come with the run as the list of runs calls it", () => {
    const { epoch, sessions } = parseSessions({ epoch: "e", sessions: [ENTRY] });
    expect([epoch, sessions[0]?.session.run]).toEqual(["e", "sweep/lr-1"]);
    expect(sessions[0]?.holder?.label).toBe("Anna");
  });

  it("have a loss that may be no number, and a place", () => {
    const [entry] = parseSessions({ sessions: [ENTRY] }).sessions;
    expect(entry?.state.loss).toBeNaN();
    expect(entry?.state.place).toEqual(PLACE);
  });

  it("without a key are left out, and others keep their place", () => {
    expect(parseSessions({ sessions: [{}, ENTRY, 3, null] }).sessions.map((each) => each.key)).toEqual(["a1"]);
  });
});

describe("news", () => {
  it("bring an entry, or say that it has gone", () => {
    expect(parseNews(ENTRY)?.entry?.state.step).toBe(812);
    expect(parseNews({ key: "a1", is_gone: true })).toEqual({ key: "a1", entry: null });
    expect(parseNews("nothing")).toBeNull();
  });
});

describe("a state", () => {
  it("of which nothing is known runs, and has no place", () => {
    const state = parseState(null);
    expect([state.status, state.place, state.reason, state.breakpoints]).toEqual(["running", null, null, []]);
  });

  it("brings its watchpoints with thresholds beyond all numbers", () => {
    const watchpoint = { id: 2, kind: "gradient", tensors: ".*", statistic: "norm", comparison: ">" };
    const { watchpoints } = parseState({ watchpoints: [{ ...watchpoint, threshold: "Infinity", is_on: false }] });
    expect(watchpoints[0]).toMatchObject({ id: 2, threshold: Infinity, is_on: false, preset: null, complaint: null });
  });
});

describe("a tensor", () => {
  const cells = { shape: [2, 2], rows: [0, 3], columns: [1, 1], values: [1, "NaN", "-Infinity", 4] };
  const look = { statistics: { count: 4, nan: 1 }, histogram: { lower: [0, 2], upper: [2, 4], counts: [1, 1] }, cells };

  it("has its values row by row", () => {
    const view = parseTensorView({ name: "weight:a", shape: [6, 3], ...look, previous: null, difference: look });
    expect([...(view.cells?.values ?? [])]).toEqual([1, NaN, -Infinity, 4]);
    expect([view.cells?.rows, view.cells?.columns]).toEqual([
      [0, 3],
      [1, 1],
    ]);
    expect([view.previous, view.difference?.statistics["nan"]]).toEqual([null, 1]);
    expect(view.histogram?.upper).toEqual(Float64Array.of(2, 4));
  });

  it("with fewer values than it says shows none", () => {
    expect(parseTensorView({ cells: { ...cells, shape: [3, 2] } }).cells).toBeNull();
  });
});
