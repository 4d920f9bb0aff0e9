/** A made-up training that can be paused and stepped, for the page of the debugger. */

import { entryOf, TENSORS, viewOf, type MadeTensor } from "./debugged-tensors";
import { MODULES } from "./network";

type Json = Record<string, unknown>;

interface Place extends Json {
  readonly phase: string;
  readonly module: string | null;
  readonly edge: string;
}

const FILE = "/home/ada/resnet/train.py";
const SOURCE = `"""Trains a small residual network."""

import torch
from torch import nn

import tb_netdebug as nd


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.conv1(inputs))  # keeps its size
        return inputs + self.conv2(hidden)


def train(model: nn.Module, loader, epochs: int = 90) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    loss_of = nn.CrossEntropyLoss()
    with nd.watch(model, optimizer, debugger=True) as monitor:
        for epoch in range(epochs):
            for inputs, target in loader:
                optimizer.zero_grad()
                output = model(inputs)
                loss = loss_of(output, target)
                loss.backward()
                optimizer.step()
                monitor.step(loss=loss)
        print(f"epoch {epoch}: {loss.item():.4f}")
`.split("\n");
const LINES: Readonly<Record<string, number>> = { start: 26, forward: 27, backward: 29, optimizer: 30, end: 31 };

export const MODULE_LIST: readonly Json[] = moduleList();

function moduleList(): Json[] {
  const found = new Map<string, Json>();
  const add = (name: string, class_name: string, parent: string | null, parameters: number): void => {
    if (!found.has(name)) {
      found.set(name, { name, class_name, parent, parameters, file: FILE, line: 9, order: found.size });
    }
  };
  add("ResNet", "ResNet", null, 11_200_000);
  for (const { name, class_name, shape } of MODULES) {
    const parts = name.split(".");
    for (let end = 1; end < parts.length; end++) {
      const above = end === 1 ? "ResNet" : parts.slice(0, end - 1).join(".");
      add(parts.slice(0, end).join("."), end === 3 ? "Block" : "Sequential", above, 0);
    }
    const parent = parts.length === 1 ? "ResNet" : parts.slice(0, -1).join(".");
    add(
      name,
      class_name,
      parent,
      shape.reduce((product, size) => product * size, 1),
    );
  }
  return [...found.values()];
}

type Stop = readonly [phase: string, module: string | null, class_name: string | null, edge: string];

const PLACES: readonly Place[] = places();

function places(): Place[] {
  const made = ([phase, module, class_name, edge]: Stop, number: number): Place => {
    const isBlock = phase === "forward" && module?.startsWith("stages");
    const line = isBlock ? (module?.endsWith("conv1") ? 16 : 17) : (LINES[phase] ?? 1);
    const own = { file: FILE, line, function: isBlock ? "forward" : "train" };
    return { phase, module, class_name, edge, op: null, number, ...own };
  };
  const layers = MODULES.map(({ name, class_name }) => [name, class_name] as const);
  const stops: Stop[] = [
    ["start", null, null, "before"],
    ...layers.flatMap(([name, type]): Stop[] => [
      ["forward", name, type, "before"],
      ["forward", name, type, "after"],
    ]),
    ...[...layers].reverse().map(([name, type]): Stop => ["backward", name, type, "after"]),
    ["optimizer", null, "Adam", "before"],
    ["optimizer", null, "Adam", "after"],
    ["end", null, null, "after"],
  ];
  return stops.map(made);
}

interface Watchpoint extends Json {
  id: number;
  is_on: boolean;
  hits: number;
}
interface Breakpoint extends Json {
  id: number;
  layer: string | null;
  phase: string;
  is_on: boolean;
  hits: number;
}

const PRESETS: readonly Json[] = [
  ["nonfinite-gradient", "Gradients that are NaN or infinite", "gradient", "nonfinite", "is", null],
  ["nonfinite-output", "Outputs that are NaN or infinite", "output", "nonfinite", "is", null],
  ["large-gradient", "Gradients with values above 1000", "gradient", "abs_max", ">", 1000],
  ["dead-output", "Outputs that are almost all zero", "output", "zeros", ">", 0.99],
  ["large-update", "Weights that change by more than a tenth", "weight", "change", ">", 0.1],
].map(([preset, title, kind, statistic, comparison, threshold]) => ({
  preset,
  title,
  kind,
  statistic,
  comparison,
  threshold,
  tensors: ".*",
  advice: "Look at the layer that comes first: those behind it only pass on what they get.",
}));

const BATCH_MILLISECONDS = 400;

/** Refuses with a sentence. */
export class Refused extends Error {}

export class MadeTraining {
  step = 812;
  private at: number;
  private status: "running" | "paused" = "running";
  private version = 1;
  private reason: Json | null = null;
  private pausedAt: number | null = null;
  private nextId = 1;
  private breakpoints: Breakpoint[] = [];
  private watchpoints: Watchpoint[] = [];
  private hits: Json[] = [];
  private rate = 3e-4;
  private note: string | null = null;
  private runUntil: ((place: Place) => boolean) | null = null;

  constructor(
    readonly key: string,
    readonly facts: Json,
    private readonly changed: (training: MadeTraining) => void,
    isPaused: boolean,
  ) {
    this.at = PLACES.findIndex((place) => place.module === "stages.1.0.conv2");
    if (isPaused) this.stop("asked", "You asked for it.");
    setInterval(() => this.run(), BATCH_MILLISECONDS).unref();
  }

  get place(): Place {
    return PLACES[this.at] as Place;
  }

  get state(): Json {
    return {
      version: this.version,
      status: this.status,
      is_attached: true,
      step: this.step,
      place: this.place,
      reason: this.reason,
      paused_at: this.pausedAt,
      lease_secs: 15,
      resumes_at: this.pausedAt !== null && this.facts["world_size"] === 2 ? this.pausedAt + 540 : null,
      is_waiting: this.runUntil !== null,
      loss: 2.3 / (1 + this.step / 500),
      hits: this.hits.length,
      breakpoints: this.breakpoints,
      watchpoints: this.watchpoints,
      learning_rates: [{ optimizer: 0, group: 0, name: "Adam", value: this.rate }],
      note: this.note,
    };
  }

  /** Throws Refused. */
  answer(verb: string, given: Json): unknown {
    const answer = this.verbs[verb];
    if (!answer) throw new Refused(`There is no verb ${verb}.`);
    const value = answer(given);
    this.version += 1;
    this.changed(this);
    return value === STATE ? this.state : value;
  }

  private readonly verbs: Readonly<Record<string, (given: Json) => unknown>> = {
    pause: moving(() => this.stop("asked", "You asked for it.")),
    continue: moving(() => this.go(null)),
    step: moving(({ by }) => this.stepBy(String(by))),
    run_to: moving((given) => this.runTo(given)),
    detach: moving(() => this.go(null)),
    set_breakpoint: (given) => this.put(this.breakpoints, given) as unknown,
    remove_breakpoint: ({ id }) => remove(this.breakpoints, (each) => each.id === id),
    set_watchpoint: (given) => this.put(this.watchpoints, { advice: "", complaint: null, ...given }),
    remove_watchpoint: ({ id }) => remove(this.watchpoints, (each) => each.id === id),
    presets: () => PRESETS,
    recheck: () => ({ hits: this.check() }),
    hits: ({ since }) => this.hits.filter((hit) => Number(hit["number"]) > Number(since)),
    clear_hits: () => remove(this.hits, () => true),
    set_learning_rate: ({ value }) => {
      this.rate = Number(value);
      return [{ optimizer: 0, group: 0, name: "Adam", value: this.rate }];
    },
    snapshot: () => ({ path: `/home/ada/resnet/runs/baseline/capsules/step-${this.step}` }),
    modules: () => MODULE_LIST,
    stack: () => this.stack(),
    source: ({ file }) => ({ file, first_line: 1, lines: file === FILE ? SOURCE : ["# A file of a library."] }),
    tensors: ({ kind, match }) => {
      const pattern = new RegExp(String(match ?? ""));
      return TENSORS.filter((each) => (!kind || each.kind === kind) && pattern.test(each.name)).map(entryOf);
    },
    tensor: ({ name, slice, previous }) => {
      try {
        return viewOf(this.tensor(name), slice as string | null, this.step, previous === true);
      } catch (error) {
        throw new Refused(error instanceof Error ? error.message : String(error));
      }
    },
    evaluate: ({ text }) => {
      const name = /`([^`]*)`/.exec(String(text))?.[1];
      if (!name) throw new Refused("Names of tensors stand in backquotes.");
      return { ...viewOf(this.tensor(name), null, this.step, false), name: text };
    },
    batch: () =>
      TENSORS.filter((each) => each.kind === "batch" || each.kind === "label").map((each) => ({
        ...entryOf(each),
        role: each.kind === "label" ? "label" : "input",
      })),
  };

  tensor(name: unknown): MadeTensor {
    const found = TENSORS.find((each) => each.name === name);
    if (!found) throw new Refused(`There is no tensor ${String(name)} within reach.`);
    return found;
  }

  private put<Point extends { id: number }>(points: Point[], given: Json): Point {
    const id = typeof given["id"] === "number" ? given["id"] : this.nextId++;
    const at = points.findIndex((each) => each.id === id);
    const point = { hits: 0, ...points[at], ...given, id } as unknown as Point;
    if (at < 0) points.push(point);
    else points[at] = point;
    return point;
  }

  private stop(kind: string, text: string, id: number | null = null): void {
    this.status = "paused";
    this.runUntil = null;
    this.pausedAt ??= Date.now() / 1000;
    this.reason = { kind, text, id };
  }

  private go(until: ((place: Place) => boolean) | null): void {
    this.status = "running";
    this.pausedAt = null;
    this.reason = null;
    this.note = null;
    this.runUntil = until;
  }

  private stepBy(by: string): void {
    if (this.status !== "paused") throw new Refused("The training runs. Pause it first.");
    if (by === "op") throw new Refused("Operations cannot be stepped in a model that is compiled.");
    const isEnd: Record<string, (place: Place) => boolean> = {
      layer: (place) => place.module !== null,
      batch: (place) => place.phase === "end",
      backward: (place) => place.phase === "backward",
      optimizer: (place) => place.phase === "optimizer",
    };
    this.pausedAt = null;
    do this.advance();
    while (!isEnd[by]?.(this.place));
    this.stop("step", "One step was asked for.");
  }

  private runTo({ step, layer }: Json): void {
    const pattern = layer ? new RegExp(String(layer)) : null;
    this.go((place) => (pattern ? place.module !== null && pattern.test(place.module) : this.step >= Number(step)));
  }

  private advance(): void {
    this.at = (this.at + 1) % PLACES.length;
    if (this.at === 0) this.step += 1;
  }

  /** A batch, or as far as something stops it. */
  private run(): void {
    if (this.status === "paused") return;
    for (let i = 0; i < PLACES.length && this.status === "running"; i++) {
      this.advance();
      if (this.runUntil?.(this.place)) this.stop("asked", "It came to the place that was asked for.");
      this.breakAt();
      if (this.place.phase === "end" && this.step % 10 === 0 && this.check() > 0) {
        const id = Number(this.hits.at(-1)?.["watchpoint"]);
        this.stop("watchpoint", "A watchpoint holds: see the hits.", id);
      }
    }
    this.version += 1;
    this.changed(this);
  }

  private breakAt(): void {
    const { phase, module, edge } = this.place;
    for (const point of this.breakpoints.filter((each) => each.is_on && each.phase === phase)) {
      if (point.layer !== null && !(module && edge === "before" && new RegExp(point.layer).test(module))) continue;
      point.hits += 1;
      this.stop("breakpoint", `A breakpoint is set on ${module ?? phase}.`, point.id);
    }
  }

  private check(): number {
    const before = this.hits.length;
    for (const point of this.watchpoints.filter((each) => each.is_on)) {
      const tensors = TENSORS.filter((each) => each.kind === point["kind"] && each.of.startsWith("stages.2"));
      for (const tensor of tensors.slice(0, 3)) {
        const { kind, statistic, comparison, threshold } = point;
        this.hits.push({
          number: this.hits.length + 1,
          step: this.step,
          place: PLACES.find((place) => place.module === tensor.module && place.phase === "backward"),
          watchpoint: point.id,
          tensor: tensor.name,
          kind,
          statistic,
          comparison,
          threshold,
          actual: statistic === "nonfinite" ? 42 : 1.7 * Number(threshold ?? 1),
          advice: "Look at the layer that comes first: those behind it only pass on what they get.",
        });
        point.hits += 1;
      }
    }
    return this.hits.length - before;
  }

  private stack(): Json[] {
    const { file, line } = this.place;
    const isInside = this.place["function"] === "forward";
    const text = (name: string, type: string, shown: string): Json => ({ name, type, text: shown });
    const train = [
      text("epoch", "int", "3"),
      text("inputs", "Tensor", "Tensor [16, 3, 32, 32] float32, mean 0.02, std 0.98"),
      text("target", "Tensor", "Tensor [16] int64, 0 … 9"),
      text("optimizer", "Adam", "Adam, 1 group, lr 0.0003"),
    ];
    const forward = [
      text("self", "Block", "Block"),
      text("inputs", "Tensor", "Tensor [16, 64, 56, 56] float32, mean 0.41, std 0.77"),
    ];
    const library = (name: string, of: string, at: number): Json => ({
      file: `/usr/lib/python3/site-packages/torch/${of}`,
      line: at,
      function: name,
      is_user: false,
      locals: [text("args", "tuple", "(Tensor,)")],
    });
    const call = library("_call_impl", "nn/modules/module.py", 1784);
    const calls = [call, library("forward", "nn/modules/container.py", 250)];
    const own = { file, line, function: "forward", is_user: true, locals: forward };
    const outer = { file: FILE, line: isInside ? 27 : line, function: "train", is_user: true, locals: train };
    const main = { file: FILE, line: 36, function: "<module>", is_user: true, locals: [] };
    return isInside ? [call, own, ...calls, outer, main] : [outer, main];
  }
}

/** Instead of an answer: the state as it is after all has happened. */
const STATE = Symbol("state");

/** A verb after which the training stands elsewhere. */
function moving(move: (given: Json) => void): (given: Json) => typeof STATE {
  return (given) => {
    move(given);
    return STATE;
  };
}

/** What is left stays in the same array. */
function remove<Entry>(entries: Entry[], isGone: (entry: Entry) => boolean): null {
  const left = entries.filter((entry) => !isGone(entry));
  entries.splice(0, entries.length, ...left);
  return null;
}
