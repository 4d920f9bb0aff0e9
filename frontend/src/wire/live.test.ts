import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LiveHub, TAB_REPEATS_MILLISECONDS, type Tab } from "./live-hub";
import { LiveStream, type LiveMessage } from "./live-stream";

const URL = "http://localhost/live";
const pass = (milliseconds: number): Promise<unknown> => vi.advanceTimersByTimeAsync(milliseconds);

/** A server whose streams a test writes to, breaks and counts. */
class Server {
  readonly lastIds: (string | null)[] = [];
  readonly proofs: (string | undefined)[] = [];
  open = 0;
  status = 200;
  private writer: ReadableStreamDefaultController<Uint8Array> | null = null;

  readonly fetch = ((_: string, { headers, signal }: { headers: Record<string, string>; signal: AbortSignal }) => {
    this.lastIds.push(headers["Last-Event-ID"] ?? null);
    this.proofs.push(headers["X-NetDebug"]);
    if (this.status !== 200) return Promise.resolve(new Response("", { status: this.status }));
    this.open += 1;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.writer = controller;
      },
    });
    signal.addEventListener("abort", () => this.end(() => this.writer?.error(new Error("aborted"))));
    return Promise.resolve(new Response(stream));
  }) as unknown as typeof fetch;

  say(text: string): void {
    this.writer?.enqueue(new TextEncoder().encode(text));
  }

  cut(): void {
    this.end(() => this.writer?.close());
  }

  private end(how: () => void): void {
    if (!this.writer) return;
    how();
    this.writer = null;
    this.open -= 1;
  }
}

function hear(): { told: LiveMessage[]; states: () => string[] } {
  const told: LiveMessage[] = [];
  return { told, states: () => told.flatMap((each) => (each.type === "connection" ? [each.connection] : [])) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a live stream", () => {
  it("tells events with their data, and that it is open", async () => {
    const [server, { told, states }] = [new Server(), hear()];
    const live = new LiveStream(URL, (message) => told.push(message), server.fetch);
    live.open();
    await pass(0);
    server.say('id: e-1\nevent: run\ndata: {"run":"a"}\n\n');
    await pass(0);
    expect(states()).toEqual(["connecting", "open"]);
    expect(told).toContainEqual({ type: "event", name: "run", data: { run: "a" } });
    live.close();
  });

  it("comes back after a cut by itself, where it was", async () => {
    const [server, { told, states }] = [new Server(), hear()];
    const live = new LiveStream(URL, (message) => told.push(message), server.fetch);
    live.open();
    await pass(0);
    server.say("id: e-41\nevent: hello\ndata: {}\n\n");
    await pass(0);
    server.cut();
    await pass(2000);
    server.say(": here\n\n");
    await pass(0);
    expect(server.lastIds).toEqual([null, "e-41"]);
    expect(server.proofs).toEqual(["1", "1"]);
    expect(states()).toEqual(["connecting", "open", "lost", "open"]);
    live.close();
  });

  it("notices silence, because a dead line says nothing", async () => {
    const [server, { told, states }] = [new Server(), hear()];
    const live = new LiveStream(URL, (message) => told.push(message), server.fetch);
    live.open();
    await pass(0);
    server.say(": here\n\n");
    await pass(9000);
    server.say(": here\n\n");
    await pass(9000);
    expect(states()).toEqual(["connecting", "open"]);
    await pass(2000);
    expect(states()).toEqual(["connecting", "open", "lost"]);
    live.close();
  });

  it("waits longer and longer for a server that refuses", async () => {
    const [server, { told }] = [new Server(), hear()];
    server.status = 503;
    const live = new LiveStream(URL, (message) => told.push(message), server.fetch);
    live.open();
    await pass(60000);
    expect(server.lastIds.length).toBeGreaterThan(5);
    expect(server.lastIds.length).toBeLessThan(20);
    live.close();
    const before = server.lastIds.length;
    await pass(60000);
    expect(server.lastIds.length).toBe(before);
  });
});

function tab(): Tab & { told: LiveMessage[] } {
  const told: LiveMessage[] = [];
  return { told, postMessage: (message) => void told.push(message) };
}

function hub(server: Server): LiveHub {
  return new LiveHub((url, tell) => new LiveStream(url, tell, server.fetch));
}

describe("the hub of all tabs", () => {
  it("has one stream for all of them, and tells all who look", async () => {
    const server = new Server();
    const [shared, first, second, dark] = [hub(server), tab(), tab(), tab()];
    for (const each of [first, second]) shared.hear(each, { visible: true, url: URL });
    shared.hear(dark, { visible: false, url: URL });
    await pass(0);
    server.say('event: run\ndata: {"run":"a"}\n\n');
    await pass(0);
    expect(server.open).toBe(1);
    const news = { type: "event", name: "run", data: { run: "a" } };
    expect(first.told).toContainEqual(news);
    expect(second.told).toContainEqual(news);
    expect(dark.told).toEqual([]);
  });

  it("closes the stream when nobody looks, and resumes where it was", async () => {
    const server = new Server();
    const [shared, first, second] = [hub(server), tab(), tab()];
    for (const each of [first, second]) shared.hear(each, { visible: true, url: URL });
    await pass(0);
    server.say("id: e-5\nevent: hello\ndata: {}\n\n");
    await pass(0);
    shared.hear(first, { visible: false, url: URL });
    expect(server.open).toBe(1);
    shared.hear(second, { visible: false, url: URL });
    expect(server.open).toBe(0);
    shared.hear(first, { visible: true, url: URL });
    await pass(0);
    expect([server.open, server.lastIds]).toEqual([1, [null, "e-5"]]);
  });

  it("tells a tab that joins how the stream is", async () => {
    const server = new Server();
    const [shared, first, late] = [hub(server), tab(), tab()];
    shared.hear(first, { visible: true, url: URL });
    await pass(0);
    server.say(": here\n\n");
    await pass(0);
    shared.hear(late, { visible: true, url: URL });
    expect(late.told).toEqual([{ type: "connection", connection: "open" }]);
  });

  it("forgets a tab that fell silent, and knows it again when it speaks", async () => {
    const server = new Server();
    const [shared, crashed] = [hub(server), tab()];
    shared.hear(crashed, { visible: true, url: URL });
    await pass(3 * TAB_REPEATS_MILLISECONDS);
    shared.sweep();
    expect(server.open).toBe(1);
    await pass(TAB_REPEATS_MILLISECONDS);
    shared.sweep();
    expect(server.open).toBe(0);
    shared.hear(crashed, { visible: true, url: URL });
    await pass(0);
    expect(server.open).toBe(1);
  });
});
