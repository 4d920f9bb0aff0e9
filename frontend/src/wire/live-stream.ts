/**
 * One stream of the server's news that mends itself. Not an EventSource: that one cannot resume after it was closed
 * on purpose, does not show the heartbeat, and gives up for good when the server is busy.
 */

import { EventStreamParser } from "./event-stream";
import { OWN_HEADER } from "./http";

export type Connection = "closed" | "connecting" | "open" | "lost";

export type LiveMessage =
  | { readonly type: "event"; readonly name: string; readonly data: unknown }
  | { readonly type: "connection"; readonly connection: Connection };

/** A heartbeat comes every 4 s; two may get lost. */
const SILENCE_MILLISECONDS = 10000;
const SHORTEST_WAIT_MILLISECONDS = 500;
const LONGEST_WAIT_MILLISECONDS = 8000;

export class LiveStream {
  connection: Connection = "closed";
  private lastId = "";
  private running: AbortController | null = null;

  constructor(
    private readonly url: string,
    private readonly tell: (message: LiveMessage) => void,
    private readonly request: typeof fetch = fetch.bind(globalThis),
  ) {}

  open(): void {
    if (this.running) return;
    this.running = new AbortController();
    void this.run(this.running.signal);
  }

  close(): void {
    this.running?.abort();
    this.running = null;
    this.become("closed");
  }

  private async run(stopped: AbortSignal): Promise<void> {
    let wait = SHORTEST_WAIT_MILLISECONDS;
    this.become("connecting");
    while (!stopped.aborted) {
      const heard = await this.listen(stopped);
      if (stopped.aborted) return;
      this.become("lost");
      wait = heard ? SHORTEST_WAIT_MILLISECONDS : Math.min(wait * 1.6, LONGEST_WAIT_MILLISECONDS);
      await pause(wait, stopped);
    }
  }

  /** Until the stream ends in whatever way; whether it ever began. */
  private async listen(stopped: AbortSignal): Promise<boolean> {
    const attempt = new AbortController();
    const giveUp = (): void => attempt.abort();
    stopped.addEventListener("abort", giveUp);
    let watchdog = setTimeout(giveUp, SILENCE_MILLISECONDS);
    let heard = false;
    try {
      const reader = await this.connect(attempt.signal);
      const parser = new EventStreamParser();
      const decoder = new TextDecoder();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || attempt.signal.aborted) return heard;
        clearTimeout(watchdog);
        watchdog = setTimeout(giveUp, SILENCE_MILLISECONDS);
        if (!heard) this.become("open");
        heard = true;
        for (const event of parser.push(decoder.decode(value, { stream: true }))) this.receive(event);
      }
    } catch {
      return heard; // Whatever it was, the state says "lost" and we try again.
    } finally {
      clearTimeout(watchdog);
      stopped.removeEventListener("abort", giveUp);
      attempt.abort();
    }
  }

  private async connect(signal: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    // Some proxies stream only what asks for exactly this.
    const headers: Record<string, string> = { ...OWN_HEADER, Accept: "text/event-stream" };
    if (this.lastId !== "") headers["Last-Event-ID"] = this.lastId;
    const response = await this.request(this.url, { headers, cache: "no-store", signal });
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    return response.body.getReader();
  }

  private receive({ name, data, id }: { name: string; data: string; id: string }): void {
    if (id !== "") this.lastId = id;
    this.tell({ type: "event", name, data: JSON.parse(data) as unknown });
  }

  private become(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    this.tell({ type: "connection", connection });
  }
}

function pause(milliseconds: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      stopped.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    stopped.addEventListener("abort", end);
  });
}
