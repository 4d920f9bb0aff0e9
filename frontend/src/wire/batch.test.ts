import { afterEach, describe, expect, it, vi } from "vitest";
import { askColumns, groups } from "./batch";
import type { Query } from "./types";

const query = (run: string, names = ["loss"]): Query => ({ what: "scalars", run, names });

/** A body with one error for each query, which names it. */
function body(url: string): ArrayBuffer {
  const queries = JSON.parse(decodeURIComponent(url.slice(url.indexOf("=") + 1))) as Query[];
  const header = new TextEncoder().encode(JSON.stringify({ answers: queries.map((each) => ({ error: each.run })) }));
  const whole = new Uint8Array(4 + header.length);
  new DataView(whole.buffer).setUint32(0, header.length, true);
  whole.set(header, 4);
  return whole.buffer;
}

function serve({ hangs = false } = {}): { asked: string[]; signals: AbortSignal[] } {
  const seen = { asked: [] as string[], signals: [] as AbortSignal[] };
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => {
    seen.asked.push(url);
    seen.signals.push(signal);
    if (!hangs) return Promise.resolve(new Response(body(url)));
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
  });
  return seen;
}

afterEach(() => vi.unstubAllGlobals());

describe("queries of one frame", () => {
  it("travel in one request, and each asker gets the own answers", async () => {
    const { asked } = serve();
    const never = new AbortController().signal;
    const [first, second] = await Promise.all([
      askColumns([query("a"), query("b")], never),
      askColumns([query("c")], never),
    ]);
    expect(asked.length).toBe(1);
    expect(first.map((each) => each.what === "failed" && each.error)).toEqual(["a", "b"]);
    expect(second.map((each) => each.what === "failed" && each.error)).toEqual(["c"]);
  });

  it("are cancelled only when all who asked have lost interest", async () => {
    const { signals } = serve({ hangs: true });
    const [left, right] = [new AbortController(), new AbortController()];
    const asked = [askColumns([query("a")], left.signal), askColumns([query("b")], right.signal)];
    await vi.waitFor(() => expect(signals.length).toBe(1));
    left.abort();
    expect(signals[0]?.aborted).toBe(false);
    right.abort();
    expect(signals[0]?.aborted).toBe(true);
    await Promise.allSettled(asked);
  });

  it("are split before an address gets too long or holds too many", () => {
    const long = groups(
      Array.from({ length: 40 }, (_, index) => ({ query: query(`run ${index}`, ["x".repeat(900)]) })),
    );
    expect(long.flat().length).toBe(40);
    for (const group of long) {
      expect(encodeURIComponent(JSON.stringify(group.map((each) => each.query))).length).toBeLessThan(8000);
    }
    const many = groups(Array.from({ length: 200 }, () => ({ query: query("a", []) })));
    expect(Math.max(...many.map((group) => group.length))).toBeLessThanOrEqual(100);
  });
});
