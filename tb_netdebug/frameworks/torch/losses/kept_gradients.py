"""Whether the gradients that an optimizer has used are still there when it gets new ones."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from tb_netdebug.core.records.scalar_names import GRADIENTS_KEPT
from tb_netdebug.frameworks.torch.losses.outlet import Outlet, is_recorded, measuring
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.values import PLAIN_TYPES

MOST_LOOKED_AT = 3
MOST_OPTIMIZERS = 1024
UNKNOWN = -2

# 1.0: kept, 0.0: cleared, on a device a tensor of one of them; None: not known.
Verdict = Tensor | float | None


class KeptGradient:
    """The gradient of one parameter, from one step of its optimizer to the next.

    A gradient that is another tensor by now, or has another version, was cleared or at least changed. One
    that was not may still have been cleared through `.data`, so its values are looked at.
    """

    __slots__ = ("_mark", "parameter", "verdict")

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self.begin(marked=False)

    def begin(self, *, marked: bool) -> None:
        """The optimizer has stepped; where the mark is spared, only values tell."""
        self.verdict: Verdict = None
        self._mark = mark_of(self.parameter) if marked else None

    def look(self, outlet: Outlet) -> None:
        """At the beginning of a backward pass."""
        mark = mark_of(self.parameter)
        if mark is None or (self._mark is not None and mark != self._mark):
            self.verdict = 0.0
        elif not is_cleared(self.verdict):
            found = holds_something(self.parameter.grad, outlet)
            self.verdict = found if self.verdict is None else self.verdict * found

    def mark(self) -> None:
        """At its end: what it has added is no clearing."""
        if not is_cleared(self.verdict):
            self._mark = mark_of(self.parameter)


class Watching:
    """An optimizer, and the few parameters of it that are looked at.

    `marked_at` is how many backward passes had gone by without a look when the marks were taken.
    """

    __slots__ = ("marked_at", "parameters", "reference")

    def __init__(self, optimizer: Optimizer) -> None:
        self.reference = weakref.ref(optimizer)
        self.parameters: list[KeptGradient] = []
        self.marked_at = -1

    def look(self, outlet: Outlet, *, since: int) -> None:
        """`since`: how many had gone by without a look when it stepped last."""
        if since != self.marked_at:
            self.marked_at = since
            for each in self.parameters:
                each.begin(marked=False)
        for each in self.parameters:
            each.look(outlet)

    @property
    def has_gradients(self) -> bool:
        return any(mark_of(each.parameter) is not None for each in self.parameters)

    def choose(self, tensors: Sequence[Tensor]) -> None:
        """The smallest that have a gradient; of equal ones those at the end of the network."""
        having = [tensor for tensor in reversed(tensors) if mark_of(tensor) is not None]
        having = having or [tensor for tensor in reversed(tensors) if tensor.requires_grad]
        self.parameters = [
            KeptGradient(tensor) for tensor in sorted(having, key=Tensor.numel)[:MOST_LOOKED_AT]
        ]

    def verdicts(self, *, is_complete: bool) -> list[Verdict]:
        """Whether any was kept, if there was a look; where some were missed, only a clearing is for sure."""
        known = [each.verdict for each in self.parameters if each.verdict is not None]
        if not known:
            return []
        return [highest(known) if is_complete or all(map(is_cleared, known)) else None]

    def begin(self, *, since: int) -> None:
        """It has stepped."""
        self.marked_at = since
        for each in self.parameters:
            each.begin(marked=True)


class KeptGradients:
    """Judges when an optimizer steps again: cleared at any time in between is cleared.

    So the gradients that a generator's loss leaves in a discriminator do not count, nor those of batches that
    are accumulated between two steps. In ordinary steps it is only counted: `missed` are the backward passes
    without a look, ever, and `since` how many these were when an optimizer stepped last, by its id.
    """

    def __init__(self, context: ProbeContext, outlet: Outlet) -> None:
        self._context = context
        self._outlet = outlet
        self._watching: dict[int, Watching] = {}
        self._verdicts: list[Verdict] = []  # of this step
        self.missed = 0
        self.since: dict[int, int] = {}

    def end_step(self) -> None:
        if len(self.since) > MOST_OPTIMIZERS:  # made anew for each step
            self.since.clear()
        if self._verdicts:
            known = [each for each in self._verdicts if each is not None]
            found = highest(known)
            if len(known) == len(self._verdicts) or (not isinstance(found, Tensor) and found == 1.0):
                self._outlet.put(GRADIENTS_KEPT, found)
            self._verdicts = []

    def before_backward(self) -> None:
        """Of a step whose losses are measured."""
        for number, watching in self._watching.items():
            optimizer = watching.reference()
            if optimizer is not None:
                if not watching.parameters:
                    watching.choose(self._tensors_of(optimizer))
                watching.look(self._outlet, since=self.since.get(number, UNKNOWN))

    def after_backward(self) -> None:
        """Of a step whose losses are measured."""
        for watching in self._watching.values():
            for each in watching.parameters:
                each.mark()

    def stepped(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped, in a step whose losses are measured."""
        watching = self._watching.get(id(optimizer))
        if watching is None or watching.reference() is not optimizer:
            watching = self._watching_of(optimizer)
        elif watching.marked_at == self.since.get(
            id(optimizer), UNKNOWN
        ):  # it was looked at since it stepped last
            self._verdicts += watching.verdicts(is_complete=self.missed == watching.marked_at)
        self.since[id(optimizer)] = self.missed
        if not watching.has_gradients:
            watching.choose(self._tensors_of(optimizer))
        watching.begin(since=self.missed)

    def _watching_of(self, optimizer: Optimizer) -> Watching:
        for number in [number for number, each in self._watching.items() if each.reference() is None]:
            del self._watching[number]
        watching = self._watching[id(optimizer)] = Watching(optimizer)
        return watching

    def _tensors_of(self, optimizer: Optimizer) -> list[Tensor]:
        return [each.tensor for each in self._context.parameters.of(optimizer)]


def mark_of(parameter: Tensor) -> tuple[int, int] | None:
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


def is_cleared(verdict: Verdict) -> bool:
    return not isinstance(verdict, Tensor) and verdict == 0.0


def highest(values: Sequence[Tensor | float]) -> Tensor | float:
    """Of those on a device only when none of the others is 1.0 already."""
    best = max((each for each in values if not isinstance(each, Tensor)), default=0.0)
    tensors = [each for each in values if isinstance(each, Tensor)]
    if best == 1.0 or not tensors:
        return best
    with measuring(tensors[0].device):
        return torch.stack([each.to(tensors[0].device) for each in tensors]).amax()
