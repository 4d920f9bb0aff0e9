/**
 * A key that steps as long as it is held: the next step is asked for as soon as the one before has come. Whatever
 * was pressed steps once at least, also when it was let go of before the step before had come.
 */

export class HeldKey<What> {
  private held: What | null = null;
  private next: What | null = null;
  private running = false;

  constructor(
    /** true when another step may follow. */
    private readonly step: (what: What) => Promise<boolean>,
  ) {}

  /** Not for repeats of the keyboard: they are too slow, or too fast for a slow training. */
  press(what: What): void {
    this.held = this.next = what;
    if (!this.running) void this.run();
  }

  release(): void {
    this.held = null;
  }

  private async run(): Promise<void> {
    this.running = true;
    try {
      for (let what = this.taken(); what !== null; what = this.taken()) {
        if (!(await this.step(what))) this.held = this.next = null;
      }
    } finally {
      this.running = false;
    }
  }

  private taken(): What | null {
    const what = this.next ?? this.held;
    this.next = null;
    return what;
  }
}
