/** What a JSON route says of a run, fetched once for all components that look at it, and kept fresh. */

import { signal, type Signal } from "@preact/signals";
import { getJson, RequestError } from "./http";

type Json = Readonly<Record<string, unknown>>;

interface Entry<Value> {
  readonly value: Signal<Value | null>;
  users: number;
  outdated: boolean;
  running: boolean;
}

/** Descriptions change little, and those of big networks are big: the longer one takes, the rarer it is fetched. */
const REFRESH_MILLISECONDS = 1500;
const REST_PER_REQUEST = 10;

export class SharedJson<Value> {
  private readonly entries = new Map<string, Entry<Value>>();

  constructor(
    private readonly route: string,
    private readonly parse: (json: Json) => Value,
    /** Whether it is asked for again when the run has something new; else only while there is none. */
    private readonly changes: boolean,
  ) {}

  /** The value, null until it has come; whoever asks has to call `leave` in the end. */
  join(name: string): Signal<Value | null> {
    const entry = this.entries.get(name) ?? { value: signal(null), users: 0, outdated: true, running: false };
    this.entries.set(name, entry);
    entry.users += 1;
    void this.load(name, entry);
    return entry.value;
  }

  leave(name: string): void {
    const entry = this.entries.get(name);
    if (entry && --entry.users === 0) this.entries.delete(name);
  }

  changed(name: string): void {
    const entry = this.entries.get(name);
    if (!entry || (!this.changes && entry.value.peek() !== null)) return;
    entry.outdated = true;
    void this.load(name, entry);
  }

  private async load(name: string, entry: Entry<Value>): Promise<void> {
    if (entry.running || !entry.outdated) return;
    entry.running = true;
    entry.outdated = false;
    const began = performance.now();
    try {
      entry.value.value = this.parse(await getJson(`${this.route}?run=${encodeURIComponent(name)}`));
    } catch (error) {
      // Not there (404) or not to be read (422): what the run's row says of it has to do. Else try again.
      entry.outdated = !(error instanceof RequestError && error.status >= 400 && error.status < 500);
    }
    setTimeout(
      () => {
        entry.running = false;
        if (entry.users > 0) void this.load(name, entry);
      },
      Math.max(REFRESH_MILLISECONDS, (performance.now() - began) * REST_PER_REQUEST),
    );
  }
}
