/** The text of a server-sent event stream, piece by piece. */

export interface StreamEvent {
  readonly name: string;
  readonly data: string;
  readonly id: string;
}

/** Takes the text as it comes and gives back the events that it completes. */
export class EventStreamParser {
  private rest = "";
  private name = "";
  private data: string[] = [];
  private id = "";

  push(text: string): StreamEvent[] {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): StreamEvent[] {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id" && !value.includes("\0")) this.id = value;
    return [];
  }

  private end(): StreamEvent[] {
    const event = { name: this.name || "message", data: this.data.join("\n"), id: this.id };
    const complete = this.data.length > 0;
    this.name = "";
    this.data = [];
    return complete ? [event] : [];
  }
}
