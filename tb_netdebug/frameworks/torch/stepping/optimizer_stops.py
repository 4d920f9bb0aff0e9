"""Stops before and after the step of an optimizer that moves parameters of the watched models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

from tb_netdebug.debugger.place import AFTER, BEFORE, OPTIMIZER, Place
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayers
from tb_netdebug.frameworks.torch.stepping.visits import Visits, is_compiling


class OptimizerStops:
    """Listens to all optimizer steps.

    An optimizer with a closure (LBFGS) trains while it steps: those stops come between its own two.
    """

    def __init__(self, layers: SteppedLayers, visits: Visits, *, settle: Callable[[], None]) -> None:
        self._layers = layers
        self._visits = visits
        self._settle = settle
        self._listeners: list[optimizer_steps.StepListener] = []
        self.tells = False

    def put_on(self) -> None:
        if not self._listeners:
            self._listeners = [
                optimizer_steps.BEGINNING.listen(self._before),
                optimizer_steps.ENDED.listen(self._after),
            ]

    def take_off(self) -> None:
        for listener in self._listeners:
            listener.remove()
        self._listeners = []

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._look(optimizer, BEFORE)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._look(optimizer, AFTER)

    def _look(self, optimizer: Optimizer, edge: str) -> None:
        if is_compiling() or not self._listeners:
            return
        self._settle()
        if self.tells and self._visits.are_wanted and self._moves_ours(optimizer):
            self._visits.visit(Place(OPTIMIZER, class_name=type(optimizer).__name__, edge=edge))

    def _moves_ours(self, optimizer: Optimizer) -> bool:
        self._layers.look()
        return any(
            self._layers.weight_name(each) is not None
            for group in optimizer.param_groups
            for each in group["params"]
        )
