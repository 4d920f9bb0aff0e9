import { describe, expect, it } from "vitest";
import { EventStreamParser } from "./event-stream";

const STREAM =
  'id: e-1\nevent: hello\ndata: {"epoch":"e"}\n\n: heartbeat\n\nid: e-2\r\nevent: run\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata:plain\n\n';

describe("an event stream", () => {
  it("gives the same events however it is cut", () => {
    const whole = new EventStreamParser().push(STREAM);
    expect(whole).toEqual([
      { name: "hello", data: '{"epoch":"e"}', id: "e-1" },
      { name: "run", data: '{"a":\n1}', id: "e-2" },
      { name: "message", data: "plain", id: "e-2" },
    ]);
    for (let size = 1; size < 9; size++) {
      const parser = new EventStreamParser();
      const pieces = STREAM.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
      expect(pieces.flatMap((piece) => parser.push(piece))).toEqual(whole);
    }
  });

  it("says nothing of comments and of events without data", () => {
    expect(new EventStreamParser().push(": here\n\nevent: run\nid: 3\n\n")).toEqual([]);
  });
});
