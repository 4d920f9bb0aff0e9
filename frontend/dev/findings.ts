/** Made-up findings, as the checks will bring them. */

import type { MadeRun } from "./runs";

type Json = Readonly<Record<string, unknown>>;

export function findingsOf(run: MadeRun): Json[] {
  return made(run).map((finding) => ({ sureness: 0.95, cause: null, consequences: [], ...finding }));
}

function made(run: MadeRun): Json[] {
  if (run.illness === "nan") {
    return [
      {
        rule: "diverging-loss",
        consequences: ["nonfinite-gradient"],
        severity: "warning",
        first_step: 11840,
        last_step: 12909,
        where: [],
        message: "The loss has doubled four times in 1000 steps.",
        evidence: { lowest: 0.9489, now: { value: 4.93, limit: 1.9 } },
        advice: "Lower the learning rate, or warm it up over more steps.",
      },
      {
        rule: "nonfinite-gradient",
        cause: "diverging-loss",
        severity: "error",
        first_step: 12910,
        last_step: 13199,
        where: [
          "stages.3.1.conv2.weight",
          "stages.3.1.conv1.weight",
          "stages.3.0.conv2.weight",
          "stages.3.0.conv1.weight",
          "head.weight",
        ],
        message: "Gradients became NaN, first in the backward pass of stages.3.1.conv2.",
        evidence: { nan_values: 25600, steps: 290, largest_norm_before: 124.1, learning_rate: 0.5 },
        advice:
          "The gradient norm had grown a hundredfold in the 1000 steps before: lower the learning rate from 0.5, or clip gradients at a norm of about 5.",
      },
    ];
  }
  if (run.illness !== "vanishing") return [];
  return [
    {
      rule: "vanishing-gradients",
      severity: "error",
      first_step: 210,
      last_step: 47999,
      where: ["stem.conv.weight", "stages.0.0.conv1.weight"],
      message:
        "Gradients of the first layers are 3 million times smaller than those of the last, and their weights do not move.",
      evidence: { norm_first: 6.6e-8, norm_last: 0.21, update_ratio_first: 1.2e-9 },
      advice: "Add residual connections or normalization, or initialize the weights for the activation in use.",
    },
  ];
}

export function verdictOf(run: MadeRun): string | null {
  if (run.illness === "nan" || run.illness === "vanishing") return "sick";
  return run.illness === "none" && run.ended === null ? "healthy" : null;
}
