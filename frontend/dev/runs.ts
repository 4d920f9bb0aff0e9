/** Made-up runs: a healthy one that goes on, sick ones that ended, and as many more as one asks for. */

import { verdictOf } from "./findings";
import { hash, noise } from "./noise";
import { endingOf } from "./pulse";

export interface MadeRun {
  readonly name: string;
  readonly kind: "netdebug" | "summary";
  readonly started: number;
  /** Of a step. */
  readonly seconds: number;
  /** null: it is still growing. */
  readonly ended: number | null;
  readonly illness: "none" | "nan" | "vanishing" | "slow";
  readonly batch: number;
}

export const EPOCH = "made-up";
const opened = Math.floor(Date.now() / 1000);
const NOW = opened;

/** Seconds of the made-up world: it stands still unless runs are asked to grow. */
export function now(live: boolean): number {
  return NOW + (live ? Date.now() / 1000 - opened : 0);
}

export function makeRuns(many: number): MadeRun[] {
  const runs: MadeRun[] = [
    {
      name: "resnet/baseline",
      kind: "netdebug",
      started: NOW - 2400,
      seconds: 0.05,
      ended: null,
      illness: "none",
      batch: 128,
    },
    {
      name: "resnet/lr-0.5",
      kind: "netdebug",
      started: NOW - 5400,
      seconds: 0.05,
      ended: 13200,
      illness: "nan",
      batch: 128,
    },
    {
      name: "resnet/no-skips",
      kind: "netdebug",
      started: NOW - 9000,
      seconds: 0.046,
      ended: 48000,
      illness: "vanishing",
      batch: 128,
    },
    {
      name: "resnet/slow-loader",
      kind: "netdebug",
      started: NOW - 4000,
      seconds: 0.14,
      ended: 21000,
      illness: "slow",
      batch: 64,
    },
    {
      name: "2025-11-17/summary-writer",
      kind: "summary",
      started: NOW - 86400,
      seconds: 0.2,
      ended: 5000,
      illness: "none",
      batch: 32,
    },
    {
      name: "</script><b onclick=alert(1)>\u202Eدرب شبكة\u202C",
      kind: "netdebug",
      started: NOW - 90000,
      seconds: 0.1,
      ended: 300,
      illness: "none",
      batch: 16,
    },
  ];
  for (let index = runs.length; index < many; index++) {
    const name = `sweep/lr=${(10 ** -(1 + 4 * hash("lr", index))).toPrecision(2)},seed=${index}`;
    const ended = 500 + Math.floor(20000 * hash("steps", index));
    runs.push({
      name,
      kind: "netdebug",
      started: NOW - 100000 - index * 900,
      seconds: 0.04,
      ended,
      illness: "none",
      batch: 64,
    });
  }
  return runs;
}

export function stepsOf(run: MadeRun, live: boolean): number {
  return run.ended ?? Math.floor((now(live) - run.started) / run.seconds);
}

/** The state in which /runs shows it. */
export function rowOf(run: MadeRun, live: boolean): Record<string, unknown> {
  const steps = stepsOf(run, live);
  const loss = scalarAt(run, "loss", steps - 1);
  return {
    name: run.name,
    kind: run.kind,
    started: run.started,
    changed: run.started + steps * run.seconds,
    size_bytes: steps * 900,
    version: steps,
    first_step: 0,
    last_step: steps - 1,
    steps,
    loss: Number.isFinite(loss) ? loss : "NaN",
    state: run.ended === null ? "live" : "ended",
    ranks: 2,
    gaps: 0,
    complaint: null,
    verdict: verdictOf(run),
    reason: null,
    ending: endingOf(run),
    late: null,
  };
}

const NAN_FROM = 12910;
const MIB = 1 << 20;

export function scalarNames(run: MadeRun): string[] {
  if (run.kind === "summary") return ["loss", "train/accuracy"];
  return [
    "loss",
    "batch_size",
    "gradient_norm",
    "nonfinite_gradients",
    "lr/0",
    "time/step",
    "time/data",
    "time/forward",
    "time/backward",
    "time/optimizer",
    "memory/rss",
    "memory/children_rss",
    "memory/host_available",
    "memory/gpu0/used",
    "memory/gpu0/total",
    "memory/gpu0/process",
    "memory/cuda0/allocated",
    "memory/cuda0/reserved",
    "gpu0/utilization",
    "monitor/every",
    "monitor/overhead",
    "scalar/accuracy",
    "scalar/validation_loss",
  ];
}

export function scalarAt(run: MadeRun, name: string, step: number): number {
  const shake = (size: number): number => 1 + size * noise(run.name, name, step);
  const sick = run.illness === "nan" && step >= NAN_FROM;
  const age = step / 4000;
  switch (name) {
    case "loss":
      return sick ? NaN : loss(run, step) * shake(0.08);
    case "batch_size":
      return run.batch;
    case "gradient_norm":
      return sick
        ? NaN
        : (run.illness === "nan" ? 1.5 + Math.max(0, age - 2.9) ** 2 * 900 : 1 + 2.4 / (1 + age)) *
            Math.abs(shake(0.2));
    case "nonfinite_gradients":
      return sick ? 25600 : 0;
    case "lr/0":
      return (
        (run.illness === "nan" ? 0.5 : 0.1) *
        Math.min(1, step / 800) *
        (0.51 + 0.49 * Math.cos(Math.PI * Math.min(1, step / 48000)))
      );
    case "time/data":
      return (run.illness === "slow" ? 0.09 : 0.004) * Math.abs(shake(0.25));
    case "time/forward":
      return 0.016 * Math.abs(shake(0.05));
    case "time/backward":
      return 0.023 * Math.abs(shake(0.05));
    case "time/optimizer":
      return 0.004 * Math.abs(shake(0.05));
    case "time/step":
      return run.seconds * Math.abs(shake(0.06)) * (hash(step, "hiccup") > 0.998 ? 4 : 1);
    case "memory/rss":
      return (2100 + 40 * Math.min(age, 3)) * MIB;
    case "memory/children_rss":
      return 1400 * MIB;
    case "memory/host_available":
      return (9000 - 100 * Math.min(age, 9)) * MIB;
    case "memory/gpu0/total":
      return 24564 * MIB;
    case "memory/gpu0/used":
      return (9100 + 300 * Math.min(age, 2)) * MIB;
    case "memory/gpu0/process":
      return (8700 + 300 * Math.min(age, 2)) * MIB;
    case "memory/cuda0/allocated":
      return (6200 + 800 * hash(step, "a")) * MIB;
    case "memory/cuda0/reserved":
      return 8100 * MIB;
    case "gpu0/utilization":
      return Math.max(0, (run.illness === "slow" ? 34 : 92) * shake(0.04));
    case "monitor/every":
      return 10;
    case "monitor/overhead":
      return 0.012 * Math.abs(shake(0.2));
    case "scalar/accuracy":
    case "train/accuracy":
      return 1 / (1 + loss(run, step)) + 0.02 * noise(run.name, name, step);
    case "scalar/validation_loss":
      return step % 500 === 0 ? loss(run, step) * 1.1 * shake(0.01) : NaN;
    default:
      return NaN;
  }
}

function loss(run: MadeRun, step: number): number {
  const age = step / 2500;
  if (run.illness === "vanishing") return Math.LN10 - 0.02 * Math.min(1, age / 10);
  if (run.illness === "nan") return 0.7 + 1.6 / (1 + age) + Math.max(0, step - 11800) ** 2 / 3e5;
  return 0.12 + 2.2 / (1 + age) ** 1.2;
}
