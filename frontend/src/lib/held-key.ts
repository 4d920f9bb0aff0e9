/** A key that steps as long as it is held: the next step is asked for as soon as the one before has come. */

export class HeldKey<What> {
  private held: What | null = null;
  private running = false;

  constructor(
    /** true when another step may follow. */
    private readonly step: (what: What) => Promise<boolean>,
  ) {}

  /** Repeats of the keyboard do nothing: they are too slow, or too fast for a slow training. */
  press(what: What): void {
    this.held = what;
    if (!this.running) void this.run();
  }

  release(): void {
    this.held = null;
  }

  private async run(): Promise<void> {
    this.running = true;
    try {
      for (let what = this.held; what !== null; what = this.held) {
        if (!(await this.step(what))) this.held = null;
      }
    } finally {
      this.running = false;
    }
  }
}
