import { describe, expect, it } from "vitest";
import { decodeState, encodeState, type LinkState } from "./link-state";

const START: LinkState = {
  page: "overview",
  focus: null,
  chosen: null,
  range: null,
  axis: "step",
  smoothing: 0,
  logY: false,
  rank: 0,
  params: {},
};

describe("links", () => {
  it("carry the whole state there and back", () => {
    const state: LinkState = {
      page: "layers",
      focus: "a/b=c&d#e %25",
      chosen: ["a/b=c&d#e %25", "</script>\u202e", "日本"],
      range: { first: 0, last: 99 },
      axis: "samples",
      smoothing: 0.6,
      logY: true,
      rank: 3,
      params: { "layers.kind": "gradient", "layers.search": "a&b=c" },
    };
    expect(decodeState(encodeState(state))).toEqual(state);
  });

  it("begin with the name by which TensorBoard knows the tab, and say nothing that is as usual", () => {
    expect(encodeState(START)).toBe("#netdebug");
    expect(encodeState({ ...START, page: "graph" })).toBe("#netdebug&p.netdebug.page=graph");
  });

  it("tell no run chosen from runs not chosen by hand", () => {
    expect(decodeState(encodeState({ ...START, page: "data", chosen: [] }))?.chosen).toEqual([]);
    expect(decodeState(encodeState({ ...START, page: "data" }))?.chosen).toBeNull();
  });

  it("stay short with very many runs", () => {
    const chosen = Array.from({ length: 1000 }, (_, index) => `run ${index}`);
    expect(encodeState({ ...START, chosen }).length).toBeLessThan(100);
  });

  it("of others are left alone", () => {
    for (const hash of ["", "#", "#timeseries", "#scalars&p.netdebug.page=graph", "#netdebug"]) {
      expect(decodeState(hash)).toBeNull();
    }
  });

  it("with nonsense in them give what is sensible", () => {
    const found = decodeState(
      "#netdebug&p.netdebug.page=nowhere&p.netdebug.range=9~3&p.netdebug.smoothing=7&p.netdebug.rank=-2" +
        "&p.netdebug.run=%E0%A4%A&p.netdebug.axis=&other=1&p.netdebug.log=1",
    );
    expect(found).toEqual({ ...START, smoothing: 0.99, logY: true });
  });
});
