"""The registry of scalars: what a step can hold beside its samples, by name, with unit and meaning.

Producers in `frameworks/`, `recording/` and `training/` and the rules in `checks/` share these names, so a
misspelled one is an error that mypy finds. A name in braces stands for a number or a name of the run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ScalarName:
    """One name, or a family of names such as ``lr/{group}``."""

    name: str
    unit: str
    meaning: str


REGISTRY: list[ScalarName] = []


def _declare(name: str, unit: str, meaning: str) -> str:
    REGISTRY.append(ScalarName(name, unit, meaning))
    return name


# ---- the step ---------------------------------------------------------------------------------------------

LOSS: Final = _declare("loss", "", "the loss of the batch, as the training has it")
BATCH_SIZE: Final = _declare("batch_size", "examples", "the first dimension of what the models were given")
GRADIENT_NORM: Final = _declare("gradient_norm", "", "the norm of all gradients, before they are clipped")
NONFINITE_GRADIENTS: Final = _declare(
    "nonfinite_gradients", "values", "how many values of the gradients are NaN or infinite"
)
RANKS_GRADIENT_NORM: Final = _declare(
    "ranks/gradient_norm", "", "the norm over the parts of all processes, where each has only a part"
)
RANKS_MERGED: Final = _declare(
    "ranks/merged", "processes", "how many processes have put their parts of the samples together"
)
RATES: Final = "lr/"
_declare("lr/{group}", "", "the learning rate of a parameter group, numbered over all optimizers")
OWN: Final = "scalar/"
_declare("scalar/{name}", "", "what the program has recorded by `monitor.step` or `monitor.log`")
EVALUATION_LOSS: Final = _declare("scalar/eval_loss", "", "the mean loss of an evaluation between two steps")

# ---- time -------------------------------------------------------------------------------------------------

TIME_STEP: Final = _declare("time/step", "s", "from the end of the step before to the end of this one")
TIME_DATA: Final = _declare("time/data", "s", "before the forward pass: the wait for the next batch")
TIME_FORWARD: Final = _declare("time/forward", "s", "the forward pass and the loss")
TIME_BACKWARD: Final = _declare("time/backward", "s", "between the forward pass and the optimizer")
TIME_OPTIMIZER: Final = _declare("time/optimizer", "s", "from the optimizer's step to the end of the step")
WAITED: Final = _declare("probe/waited", "s", "how long threads of the step were ready and had no processor")
PAUSED: Final = _declare("probe/paused", "s", "how long the debugger held the training")
GRAPH_TRACED: Final = _declare("probe/traced", "0 or 1", "1 when a graph was traced or compiled in this step")

# ---- NetDebug itself --------------------------------------------------------------------------------------

SAMPLED_EVERY: Final = _declare("monitor/every", "steps", "how many steps ago the last full sample was taken")
OVERHEAD: Final = _declare("monitor/overhead", "share", "what recording has cost of the training's time")
_declare("writer/{name}", "", "how many steps or samples the writer had to drop")

# ---- memory -----------------------------------------------------------------------------------------------

MEMORY: Final = "memory/"
RSS: Final = _declare("memory/rss", "bytes", "resident memory of the process")
HOST_AVAILABLE: Final = _declare("memory/host_available", "bytes", "memory of the host that is available")
CHILDREN_RSS: Final = _declare("memory/children_rss", "bytes", "resident memory of the process's children")
GPUS: Final = "memory/gpu"
CUDA: Final = "memory/cuda"
_declare("memory/{device}", "bytes", "more about processes and devices, such as memory/gpu0/used")

# ---- batches ----------------------------------------------------------------------------------------------

BATCH_ID: Final = _declare("probe/batch_id", "", "a fingerprint of the batch: equal numbers, equal batches")
BATCH_IS_SLICE: Final = _declare("probe/batch_is_slice", "0 or 1", "1 for a batch cut out of a bigger tensor")
BATCH_SHARE: Final = _declare("probe/batch_share", "share", "how much of that tensor the batch is")
LOADER_BATCHES: Final = _declare("probe/loader_batches", "batches", "the length of the loader")
LOADER_RESTARTS: Final = _declare(
    "probe/loader_restarts", "", "how often a loader was iterated from its start"
)
RANDOM_SET_BACK: Final = _declare(
    "probe/random_set_back", "0 or 1", "1 when the random generator is back at a state that it had before"
)
_declare("probe/input/{number}/{statistic}", "", "the spread and scale of an input's features")
WORDS: Final = "probe/words/"
_declare("probe/words/{number}/{end}", "", "the lowest and highest of an input's whole numbers")

# ---- losses -----------------------------------------------------------------------------------------------

LOSSES: Final = "probe/loss/"
_declare("probe/loss/{call}/{statistic}", "", "what a call of a loss function was given, and what it came to")
DIVISORS: Final = "probe/divisor/"
_declare("probe/divisor/{number}/{end}", "", "the lowest and highest of what a loss was divided by")
DESCENDED: Final = _declare("probe/descended", "", "what the gradients are taken of, where that is measured")
LOSS_SCALE: Final = _declare("probe/loss_scale", "", "the factor of a gradient scaler")
LOSS_SCALE_SKIPPED: Final = _declare(
    "probe/loss_scale_skipped", "0 or 1", "1 when the gradient scaler has left the step out"
)
LOSS_LEFT_OUT: Final = _declare(
    "probe/loss_left_out", "0 or 1", "1 when a loss that is not finite was not trained on"
)
BATCH_LEFT_OUT: Final = _declare(
    "probe/batch_left_out", "0 or 1", "1 when a batch with NaN ended before its backward pass"
)
GRADIENTS_LEFT_OUT: Final = _declare(
    "probe/gradients_left_out", "batches", "batches that were left out because of their gradients"
)
GRADIENTS_KEPT: Final = _declare(
    "probe/gradients_kept", "share", "of a gradient, what the step before left in it"
)
UPDATES_MADE: Final = _declare(
    "probe/updates_made", "steps", "steps that the optimizers have made in this one"
)

# ---- modes ------------------------------------------------------------------------------------------------

MODE_MODULES: Final = _declare(
    "probe/mode_modules", "modules", "modules that behave otherwise in evaluation, without frozen ones"
)
EVAL_MODULES: Final = _declare("probe/eval_modules", "modules", "those of them that are in evaluation mode")
EVALUATIONS: Final = _declare(
    "probe/evaluations", "calls", "calls of the models without gradients since the step before"
)
TRAIN_MODE_EVALUATIONS: Final = _declare(
    "probe/train_mode_evaluations", "calls", "those of them that were made in training mode"
)


def name_of_rate(group: int) -> str:
    """Return the name of a parameter group's learning rate."""
    return f"lr/{group}"


def name_of_own(name: str) -> str:
    """Return the name under which a scalar of the program's own is recorded."""
    return f"scalar/{name}"


def of_loss(call: object, statistic: str) -> str:
    """Return the name of a statistic of a loss call, which its `loss-call` fact numbers."""
    return f"probe/loss/{call}/{statistic}"


def of_input(number: int, statistic: str) -> str:
    """Return the name of a statistic of an input."""
    return f"probe/input/{number}/{statistic}"


def of_words(number: object, end: str) -> str:
    """Return the name of the lowest or highest (`end`: "min" or "max") of an input of whole numbers."""
    return f"probe/words/{number}/{end}"


def declared(name: str) -> ScalarName | None:
    """Return the entry of the registry that a recorded name belongs to, a name itself before a family."""
    entries = [each for each in REGISTRY if _pattern(each.name).fullmatch(name)]
    return min(entries, key=lambda each: each.name.count("{"), default=None)


def _pattern(name: str) -> re.Pattern[str]:
    parts = re.split(r"\{\w+\}", name)
    return re.compile(".+".join(map(re.escape, parts)))
