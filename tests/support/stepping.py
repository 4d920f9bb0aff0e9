"""A session that follows a script, and trainings that pass it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.workbench import NOTHING, Needs
from tb_netdebug.frameworks.torch.stepping.workbench import TorchWorkbench
from tests.support.loops import no_warnings

ALL = Needs(phases=True, layers=True, backward=True, ops=True, keep=True)


class Script:
    """Notes all places, and does at each what the test wants of it."""

    def __init__(self, do: Callable[[Script, Place], None] | None = None) -> None:
        self.is_alert = True
        self.places: list[Place] = []
        self.bench: TorchWorkbench
        self.do = do

    def visit(self, place: Place) -> None:
        self.places.append(place)
        if self.do is not None:
            self.do(self, place)

    @property
    def told(self) -> list[str]:
        """Each place in a few words."""
        return [words(place) for place in self.places]

    def take(self) -> list[str]:
        """Those since the last time."""
        told, self.places = self.told, []
        return told


def words(place: Place) -> str:
    if place.op is not None:
        return f"{place.phase} {place.op} in {place.module}"
    return f"{place.edge} {place.phase} of {place.module or place.class_name or 'all'}"


@contextmanager
def stepped(
    logdir: Path,
    models: Any,
    optimizer: Any = None,
    *,
    script: Script | None = None,
    needs: Needs = NOTHING,
    **options: Any,
) -> Iterator[tuple[Script, nd.Monitor]]:
    """A training under watch with a workbench; faults of ours fail the test."""
    script = script or Script()
    options = {"strict": True, "memory": False, "run": "run", "every": 1, "on_finding": "ignore", **options}
    with no_warnings(), nd.watch(models, optimizer, logdir=logdir, **options) as monitor:
        bench = monitor._adapter.workbench(script)
        assert isinstance(bench, TorchWorkbench)
        script.bench = bench
        script.bench.need(needs)
        yield script, monitor
        assert 0 == monitor._guard.faults


def end_step(script: Script, monitor: nd.Monitor, loss: Any = None) -> None:
    """What the monitor does at the end of each batch, with the session in it."""
    monitor.step(loss=loss)
    script.bench.end_batch()


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)
