import { describe, expect, it } from "vitest";
import { csvText } from "./export";
import { describe as inWords } from "./line-summary";
import { rowsAt } from "./line-tooltip";

const line = (label: string, x: number[], y: number[], bad?: number[]) => ({
  label,
  colour: "#000000",
  x: Float64Array.from(x),
  y: Float64Array.from(y),
  ...(bad ? { bad: Float64Array.from(bad) } : {}),
});

describe("tables", () => {
  it("quote what has to be, and keep numbers whole", () => {
    const rows = [
      ["run", "loss"],
      ['a "b", c', 0.1 + 0.2],
      ["line\nbreak", NaN],
      ["none", null],
    ];
    expect(csvText(rows)).toBe('run,loss\r\n"a ""b"", c",0.30000000000000004\r\n"line\nbreak",NaN\r\nnone,\r\n');
  });

  it("make no formula of a name", () => {
    expect(csvText([["=HYPERLINK(1)"], ["+1"], ["@x"], [-1]])).toBe("'=HYPERLINK(1)\r\n'+1\r\n'@x\r\n-1\r\n");
  });
});

describe("what is under the crosshair", () => {
  it("is the greatest value first, without runs that ended before", () => {
    const rows = rowsAt(
      [line("a", [0, 10], [1, 2]), line("b", [0, 10], [5, 6]), line("ended", [0, 2], [9, 9])],
      9,
      String,
    );
    expect(rows.map((row) => [row.label, row.text])).toEqual([
      ["b", "6"],
      ["a", "2"],
    ]);
  });

  it("says where a value is not finite", () => {
    const rows = rowsAt([line("a", [0, 1], [1, NaN], [0, 3])], 1, String);
    expect(rows[0]?.text).toBe("not finite");
  });
});

describe("a chart in words", () => {
  it("names its lines with where they go", () => {
    const text = inWords(
      "loss",
      [line("a", [0, 1, 2], [3, 1, 2]), line("b", [0], [NaN], [1]), line("c", [], [])],
      String,
    );
    expect(text).toBe("Line chart of loss; a from 1 to 3, last 2; b has no finite value");
  });

  it("names what is marked", () => {
    const marker = { x: 12, label: "dead-units", tone: "warning" } as const;
    expect(inWords("loss", [], String, [marker])).toBe("Line chart of loss; marked: dead-units at 12");
  });
});
