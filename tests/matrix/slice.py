"""The few cells that `make test` runs: one of each sort of state, and of each way to hang."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.cells import HANDLINGS, MODES, PLACES, Cell
from tests.matrix.programs import ALONE

KINDS = (
    "own-torch-generator",
    "own-numpy-generator",
    "own-python-random",
    "dropout",
    "class-counter",
    "closure-counter",
    "context-variable",
    "python-generator",
    "iterated",
    "environment",
    "shared-tensor",
    "temporary-files",
    "queue",
    "semaphore",
    "filled-pipe",
    "loopback-server",
    "file-appended",
    "file-deleted",
    "sqlite",
    "momentum-encoder",
    "codebook",
    "batch-norm-cumulative",
    "spectral-norm",
    "key-value-cache",
    "growing-network",
    "adversaries",
    "checkpointed",
    "own-function",
    "forward-mode",
    "lbfgs",
    "compiled-aot-eager",
    "equality-raises",
    "state-dict-counted",
    "extra-state",
    "copied-in-loop",
    "scripted-in-loop",
    "lazy-output",
    "data-class-output",
    "list-input",
    "resized-batch",
    "truncated-batch",
    "dispatch-mode-loss",
    "function-mode-forward",
    "dispatch-mode-loop",
    "function-mode-loop",
    "counted-weights",
    "traced-in-loop",
)
EVERY_MODE = ("own-torch-generator", "queue", "compiled-aot-eager", "equality-raises", "scripted-in-loop")
MODELS = "^(mlp|convolved)$"
RANK_CELLS = ("ddp/loss/trained",)
RANK_MODES = ("watch",)
KERAS_WAYS = {"tensorflow": "callback-ops", "jax": "callback-sampled", "torch": "run-sampled"}


def slice_of_cells() -> Iterator[list[Cell]]:
    """Each kind with one NaN and in two modes, a few in all; places and modes by turns."""
    for number, kind in enumerate(KINDS):
        place = PLACES[number % (len(PLACES) - 1)]
        handling = HANDLINGS[0 if place == "loss" else 1]
        modes = MODES if kind in EVERY_MODE else (MODES[number // 4 % 2], MODES[2 + number // 8 % 2])
        yield [Cell(kind, place, handling, mode) for mode in (ALONE, *modes)]
