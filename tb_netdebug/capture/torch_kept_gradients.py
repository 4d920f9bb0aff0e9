"""Whether the gradients that an optimizer has used are still there when it gets new ones."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from tb_netdebug.capture.torch_backward import watch_backward
from tb_netdebug.capture.torch_loss_outlet import Outlet, is_recorded, measuring
from tb_netdebug.capture.torch_probe import ProbeContext
from tb_netdebug.capture.torch_values import PLAIN_TYPES

NAME = "probe/gradients_kept"
MOST_LOOKED_AT = 3

Mark = tuple[int, int]


class Kept:
    """The gradient of one parameter from one step of its optimizer to the next.

    A gradient that is still the same tensor with the same version was not touched, unless through `.data`:
    only then its values are looked at. `kept` is 1.0 or 0.0, on a device a tensor, and None before a look.
    """

    __slots__ = ("_mark", "kept", "missed", "parameter")

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self.begin()

    def begin(self) -> None:
        self.kept: Tensor | float | None = None
        self.missed = False
        self._mark = mark_of(self.parameter)

    def look(self, outlet: Outlet, *, probing: bool) -> None:
        """At the beginning of a backward pass."""
        if self._mark is None or mark_of(self.parameter) != self._mark:
            self.kept = 0.0
        elif probing:
            self.kept = both(self.kept, holds_something(self.parameter.grad, outlet))
        else:
            self.missed = True

    @property
    def has_gradient(self) -> bool:
        return self._mark is not None

    def mark(self) -> None:
        """At its end: what it has added is new, and no clearing."""
        if not is_cleared(self.kept):
            self._mark = mark_of(self.parameter)


class Watching:
    """An optimizer, and the few parameters of it that are looked at."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.reference = weakref.ref(optimizer)
        self.parameters: list[Kept] = []

    def choose(self, tensors: list[Tensor]) -> None:
        """The smallest that have a gradient; of equal ones those at the end of the network."""
        having = [tensor for tensor in reversed(tensors) if mark_of(tensor) is not None]
        self.parameters = [Kept(tensor) for tensor in sorted(having, key=Tensor.numel)[:MOST_LOOKED_AT]]

    def verdict(self) -> Tensor | float | None:
        """Whether any was kept; None when that is not known."""
        known = [each.kept for each in self.parameters if each.kept is not None]
        if any(each.missed and not is_cleared(each.kept) for each in self.parameters) or not known:
            return None
        return highest(known)


class KeptGradients:
    """Judges when an optimizer steps again: cleared at any time in between is cleared.

    So the gradients that a generator's loss leaves in a discriminator do not count, nor those of batches that
    are accumulated between two steps.
    """

    def __init__(self, context: ProbeContext, outlet: Outlet) -> None:
        self._context = context
        self._outlet = outlet
        self._watching: dict[int, Watching] = {}
        self._verdicts: list[Tensor | float] = []
        self._backward = watch_backward(self._before, self._after, guard=context.guard)

    def close(self) -> None:
        self._backward.close()

    def end_step(self) -> None:
        if self._verdicts:
            if self._context.collector.probing:
                self._outlet.put(NAME, highest(self._verdicts))
            self._verdicts = []

    def stepped(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped."""
        watching = self._watching.get(id(optimizer))
        if watching is None or watching.reference() is not optimizer:
            self._forget_gone()
            watching = self._watching[id(optimizer)] = Watching(optimizer)
        verdict = watching.verdict()
        if verdict is not None:
            self._verdicts.append(verdict)
        for each in watching.parameters:
            each.begin()
        if not any(each.has_gradient for each in watching.parameters):
            watching.choose([each.tensor for each in self._context.parameters.of(optimizer)])

    def _before(self, _: Any) -> None:
        if not self._outlet.is_here():
            return
        probing = self._context.collector.probing
        for watching in self._watching.values():
            for each in watching.parameters:
                if not is_cleared(each.kept):
                    each.look(self._outlet, probing=probing)

    def _after(self, _: Any) -> None:
        if not self._outlet.is_here():
            return
        for watching in self._watching.values():
            for each in watching.parameters:
                each.mark()

    def _forget_gone(self) -> None:
        for number in [number for number, each in self._watching.items() if each.reference() is None]:
            del self._watching[number]


def mark_of(parameter: Tensor) -> Mark | None:
    """Which tensor its gradient is, and how often that was changed; None when there is none to be read."""
    gradient = parameter.grad
    if gradient is None or type(gradient) not in PLAIN_TYPES or gradient.layout is not torch.strided:
        return None
    return gradient.data_ptr(), gradient._version


def holds_something(gradient: Tensor | None, outlet: Outlet) -> Tensor | float:
    if gradient is None or is_recorded(gradient.device):
        return 0.0
    with measuring(gradient.device):
        found = (gradient != 0).any()
        return float(found) if outlet.reads(found) else found.float()


def is_cleared(kept: Tensor | float | None) -> bool:
    return not isinstance(kept, Tensor) and kept == 0.0


def both(first: Tensor | float | None, second: Tensor | float) -> Tensor | float:
    return second if first is None else first * second


def highest(values: list[Tensor | float]) -> Tensor | float:
    """Of those on a device only when none of the others is 1.0 already."""
    best = max((each for each in values if not isinstance(each, Tensor)), default=0.0)
    tensors = [each for each in values if isinstance(each, Tensor)]
    if best == 1.0 or not tensors:
        return best
    with measuring(tensors[0].device):
        return torch.stack([each.to(tensors[0].device) for each in tensors]).amax()
