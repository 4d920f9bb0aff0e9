import { describe, expect, it } from "vitest";
import { elided, heatLayout, rowAt, rowsInSight, scrollFor, stepToX, wantedHeight, xToStep } from "./heat-layout";
import { dragged, kept, moved, zoomed } from "./step-window";

describe("layout", () => {
  it("gives few rows room and many rows a readable height with scrolling", () => {
    expect(heatLayout(1000, 500, 8, 200).rowHeight).toBeGreaterThan(20);
    const long = heatLayout(1000, 500, 1500, 200);
    expect(long.rowHeight).toBeGreaterThanOrEqual(12);
    expect(long.total).toBeGreaterThan(500);
    expect(wantedHeight(1500, 600)).toBe(600);
  });

  it("is no taller than its rows", () => {
    for (const rows of [1, 8, 34, 45]) {
      const height = wantedHeight(rows, 600);
      expect(heatLayout(1000, height, rows, 200).total).toBe(height);
    }
  });

  it("gives names the room they need, and no more than the cells can spare", () => {
    expect(heatLayout(1000, 500, 8, 120).labels).toBe(120);
    expect(heatLayout(1000, 500, 8, 9000).labels).toBe(280);
  });

  it("keeps most of a phone for the cells", () => {
    const layout = heatLayout(358, 500, 100, 900);
    expect(layout.labels).toBeLessThan(120);
  });

  it("finds row and step of every place back", () => {
    const layout = heatLayout(900, 400, 1500, 200);
    const window = { first: 100, last: 299 };
    for (const step of [100, 177.25, 299.5]) {
      expect(xToStep(layout, window, stepToX(layout, window, step))).toBeCloseTo(step);
    }
    for (const row of [0, 3, 700, 1499]) {
      const scroll = scrollFor(layout, row, 0);
      const { from, to } = rowsInSight(layout, scroll);
      expect(row).toBeGreaterThanOrEqual(from);
      expect(row).toBeLessThan(to);
      expect(rowAt(layout, row * layout.rowHeight - scroll + 1, scroll)).toBe(row);
    }
    expect(rowAt(layout, -1, 0)).toBe(-1);
    expect(rowAt(heatLayout(900, 400, 3, 200), 200, 0)).toBe(-1);
  });

  it("does not scroll for a row that is in sight", () => {
    const layout = heatLayout(900, 400, 1500, 200);
    expect(scrollFor(layout, 10, 50)).toBe(50);
  });
});

describe("names", () => {
  const measure = (text: string): number => Array.from(text).length * 10;

  it("stay whole where they fit and lose their middle where not", () => {
    expect(elided("fc1.weight", 100, measure)).toBe("fc1.weight");
    const short = elided("encoder.layers.11.attention.query.weight", 150, measure);
    expect(measure(short)).toBeLessThanOrEqual(150);
    expect(short).toMatch(/^enc.*….*weight$/);
  });

  it("may be very long, or of letters outside the basic plane", () => {
    expect(measure(elided("x".repeat(10000), 200, measure))).toBeLessThanOrEqual(200);
    expect(elided("😀".repeat(40), 100, measure)).toBe(`${"😀".repeat(3)}…${"😀".repeat(6)}`);
  });
});

describe("windows of steps", () => {
  const bounds = { first: 0, last: 999 };

  it("follow the run again when they hold all of it", () => {
    expect(kept({ first: -5, last: 2000 }, bounds)).toBe(null);
    expect(zoomed({ first: 100, last: 900 }, bounds, 500, 10)).toBe(null);
  });

  it("keep the centre of a zoom in its place", () => {
    expect(zoomed({ first: 0, last: 999 }, bounds, 250, 0.5)).toEqual({ first: 125, last: 625 });
  });

  it("stop at the ends of the run, keeping their width", () => {
    expect(moved({ first: 900, last: 949 }, bounds, 5)).toEqual({ first: 950, last: 999 });
    expect(moved({ first: 10, last: 59 }, bounds, -5)).toEqual({ first: 0, last: 49 });
  });

  it("hold at least two steps", () => {
    expect(zoomed({ first: 10, last: 11 }, bounds, 10, 0.001)).toEqual({ first: 10, last: 11 });
    expect(dragged(41.2, 41.9, bounds)).toEqual({ first: 41, last: 42 });
  });

  it("are dragged from either side", () => {
    expect(dragged(80.9, 20.1, bounds)).toEqual({ first: 20, last: 80 });
  });
});
