/** Shares one stream among the tabs of a browser, and keeps it open only while somebody looks. */

import { LiveStream, type LiveMessage } from "./live-stream";

/** From a tab: whether it can be seen. Said again every few seconds, because a tab that crashes says nothing. */
export interface TabMessage {
  readonly visible: boolean;
  /** Of the stream, absolute. */
  readonly url: string;
}

export const TAB_REPEATS_MILLISECONDS = 5000;
const TAB_FORGOTTEN_MILLISECONDS = 3.5 * TAB_REPEATS_MILLISECONDS;

export interface Tab {
  readonly postMessage: (message: LiveMessage) => void;
}

export class LiveHub {
  private readonly seen = new Map<Tab, number>();
  private stream: { readonly url: string; readonly live: LiveStream } | null = null;

  constructor(
    private readonly makeStream = (url: string, tell: (message: LiveMessage) => void) => new LiveStream(url, tell),
    private readonly now: () => number = Date.now,
  ) {}

  hear(tab: Tab, { visible, url }: TabMessage): void {
    const isNew = visible && !this.seen.has(tab);
    if (visible) this.seen.set(tab, this.now());
    else this.seen.delete(tab);
    this.settle(url);
    if (isNew && this.stream) tab.postMessage({ type: "connection", connection: this.stream.live.connection });
  }

  /** Forgets tabs that were not heard for long. To be called now and then. */
  sweep(): void {
    const oldest = this.now() - TAB_FORGOTTEN_MILLISECONDS;
    for (const [tab, heard] of this.seen) if (heard < oldest) this.seen.delete(tab);
    if (this.stream) this.settle(this.stream.url);
  }

  private settle(url: string): void {
    if (this.seen.size === 0) {
      this.stream?.live.close();
      return;
    }
    if (this.stream?.url !== url) {
      this.stream?.live.close();
      this.stream = { url, live: this.makeStream(url, (message) => this.tellAll(message)) };
    }
    this.stream.live.open();
  }

  private tellAll(message: LiveMessage): void {
    for (const tab of this.seen.keys()) tab.postMessage(message);
  }
}
