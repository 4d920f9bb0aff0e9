"""Runs a capsule's batch again and again, forward and backward, for a debugger that pauses it."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tb_netdebug.debugger.place import START, Place
from tb_netdebug.debugger.trainer.course import Reason, RunTarget
from tb_netdebug.debugger.trainer.session import Session
from tb_netdebug.debugger.workbench import Needs
from tb_netdebug.frameworks.torch.graph import GraphTracer
from tb_netdebug.frameworks.torch.numerics.capsule_weights import weights_of
from tb_netdebug.frameworks.torch.numerics.replay import (
    CapsuleError,
    Replay,
    conditions,
    model_of,
    restore,
    set_random,
)
from tb_netdebug.frameworks.torch.numerics.search import first_line, inner
from tb_netdebug.frameworks.torch.optimizers import OptimizerHooks
from tb_netdebug.frameworks.torch.parameters import Parameters
from tb_netdebug.frameworks.torch.reader import TensorReader
from tb_netdebug.frameworks.torch.stepping.workbench import TorchWorkbench
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.refusals import Refusals
from tb_netdebug.recording.settings import Settings

CLOSE_SECS = 10.0
Loss = Callable[[Any], torch.Tensor]


class Rerun:
    """A debugger session in a thread of its own, paused before the step. `send` takes its frames.

    The session pauses at the end of the step, too. Continuing from there goes back to the beginning, with the
    weights, modes and random numbers of the capsule. `notes` are sentences about what differs from the
    recorded step. `words_of` describes an error that ends the step.
    """

    def __init__(
        self,
        path: str | Path,
        content: dict[str, Any],
        model: nn.Module | Mapping[str, nn.Module],
        *,
        send: Callable[[bytes], bool],
        loss: Loss | None = None,
        words_of: Callable[[Exception], str] = first_line,
    ) -> None:
        given = model if isinstance(model, Mapping) else {"": model}
        self.notes: list[str] = []
        self._models = {name: inner(each) for name, each in given.items()}
        self._content = self._with_weights(content)
        self._loss = loss
        self._words_of = words_of
        self._passing = threading.Event()
        self._closing = threading.Event()
        self.session = Session(
            about(path, self._models),
            send=send,
            step_of=lambda: int(content["step"]),
            notice=self.notes.append,
            resumed=lambda secs: None,
        )
        self._thread = threading.Thread(target=self._work, name="netdebug-replay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def restart(self) -> None:
        """Run the rest of the step without a stop, once a client has let the session continue."""
        self._passing.set()

    def close(self) -> None:
        """End the step as `restart` does, then the thread."""
        self._closing.set()
        self._passing.set()
        self.session.close()
        self._thread.join(CLOSE_SECS)

    # ---- called by the workbench -----------------------------------------------------------------------

    @property
    def is_alert(self) -> bool:
        return self.session.is_alert and not self._passing.is_set()

    def visit(self, place: Place) -> None:
        if not self._passing.is_set():
            self.session.visit(place)

    # ---- the thread --------------------------------------------------------------------------------------

    def _work(self) -> None:
        with ExitStack() as stack:
            self.session.open(workbench(self._models, self, stack))
            stack.callback(self.session.close)
            self.session.connected()
            while not self._closing.is_set():
                self._restore()
                self._passing.clear()
                if not self._closing.is_set():
                    reason = Reason("start", "before the step that the capsule holds")
                    self.session.hold(Place(START), reason)
                    self._run()

    def _run(self) -> None:
        if self._closing.is_set():
            return
        note = "The step is over. `continue` or `restart` goes back to its beginning."
        try:
            for number, call in enumerate(self._content["calls"]):
                self._call(number, call)
        except Exception as error:  # user code failed, perhaps as it did in the run
            note = f"The step failed: {self._words_of(error)}. {note}"
        if self._passing.is_set():
            self.session.bench.end_batch()
            return
        self.session.note, self.session.course = note, RunTarget("batch")
        self.session.end_batch()

    def _call(self, number: int, call: dict[str, Any]) -> None:
        model = model_of(self._models, number, call, Replay())
        with conditions(call["autocast"]):
            set_random(call)
            output = model(*call["args"], **call["kwargs"])
        roots = [self._loss(output)] if self._loss else roots_of(output)
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])

    def _restore(self) -> None:
        done = Replay()
        for name, model in self._models.items():
            restore(self._content, name, model, done)
            model.zero_grad(set_to_none=True)

    def _with_weights(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with weights to restore before each pass.

        Raises CapsuleError for what cannot be run again, before anything runs.
        """
        if not content["calls"]:
            raise CapsuleError(
                "the capsule holds no batch: " + ("; ".join(content["left_out"]) or "none was seen")
            )
        done = Replay()
        for name, model in self._models.items():
            restore(content, name, model, done)
        for number, call in enumerate(content["calls"]):
            model_of(self._models, number, call, done)
        self.notes += done.notes
        if content["models"]:
            return content
        states = {
            name: {key: value.detach().clone() for key, value in weights_of(model).items()}
            for name, model in self._models.items()
        }
        return {**content, "models": states}


class KeepingWorkbench(TorchWorkbench):
    """A workbench for a step that is run only to be inspected: its tensors are kept until the end."""

    def need(self, needs: Needs) -> None:
        super().need(replace(needs, keep=True))


def roots_of(output: Any) -> list[torch.Tensor]:
    """Return where backward begins without a loss: all outputs with a graph, which amounts to their sum."""
    return [each for _, each in tensors_in(output) if each.requires_grad]


def workbench(models: Mapping[str, nn.Module], stops: Rerun, stack: ExitStack) -> TorchWorkbench:
    """Return a workbench that records nothing. The stack removes its hooks."""
    collector, guard = StepCollector(), Guard(strict=False)
    parameters = Parameters(models, Settings().wants)
    reader = TensorReader(collector, Refusals(guard).refuse)
    optimizers = OptimizerHooks([], parameters, collector, reader, guard, weights=None, gradients=False)
    graph = GraphTracer(dict(models), guard)
    for part in (parameters, optimizers, graph):
        stack.callback(part.close)
    return KeepingWorkbench(
        models, parameters, optimizers, graph, stops=stops, collector=collector, guard=guard
    )


def about(path: str | Path, models: Mapping[str, nn.Module]) -> dict[str, Any]:
    """Return the session's description of itself (see debugger/README.md)."""
    return {
        "run": [Path(path).name],
        "run_dir": "",
        "rank": 0,
        "world_size": 1,
        "group": "",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "program": Path(sys.argv[0]).name,
        "framework": "torch",
        "models": {name: type(model).__name__ for name, model in models.items()},
        "can": [],
        "cannot": [],
        "collective_timeout_secs": None,
    }
