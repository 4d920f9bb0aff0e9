import { expect, it } from "vitest";
import { pythonWords } from "./python-words";

const kinds = (line: string): string[] => pythonWords(line).map(({ kind, text }) => `${kind}:${text}`);

it("keywords, numbers, texts and comments are told apart, and nothing is lost", () => {
  expect(kinds("    return self.fc(x, 1e-3)  # the end")).toEqual([
    "plain:    ",
    "keyword:return",
    "plain: ",
    "keyword:self",
    "plain:.fc(x, ",
    "number:1e-3",
    "plain:)  ",
    "comment:# the end",
  ]);
});

it("a hash in a text is no comment, and a text may end with the line", () => {
  expect(kinds(`f"#{x}" + 'it\\'s`)).toEqual([`text:f"#{x}"`, "plain: + ", `text:'it\\'s`]);
});

it("numbers in names are names", () => {
  expect(kinds("x1 = lambda2")).toEqual(["plain:x1 = lambda2"]);
});
