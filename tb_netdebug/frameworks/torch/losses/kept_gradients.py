"""Checks whether gradients that an optimizer has used are still there when it gets new ones."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from tb_netdebug.core.records.scalar_names import GRADIENTS_KEPT
from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink, is_recorded, measuring
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.values import PLAIN_TYPES

MOST_LOOKED_AT = 3  # gradients of each optimizer
MOST_OPTIMIZERS = 1024
UNKNOWN = -2  # differs from every count of passes, and from the -1 of a new `Watching`

# 1.0: kept; 0.0: cleared; None: not known. On a device it is a tensor of 1.0 or 0.0.
Verdict = Tensor | float | None


class KeptGradient:
    """The gradient of one parameter, from one step of its optimizer to the next.

    If it is another tensor by now, or has another version, it was cleared or at least changed. Otherwise it
    may still have been cleared through `.data`, so its values are read.
    """

    __slots__ = ("_mark", "parameter", "verdict")

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self.begin(marked=False)

    def begin(self, *, marked: bool) -> None:
        """Begin anew after an optimizer step. If `marked` is False, only the values can show a clearing."""
        self.verdict: Verdict = None
        self._mark = mark_of(self.parameter) if marked else None

    def look(self, sink: ScalarSink) -> None:
        """Judge the gradient at the beginning of a backward pass."""
        mark = mark_of(self.parameter)
        if mark is None or (self._mark is not None and mark != self._mark):
            self.verdict = 0.0
        elif not is_cleared(self.verdict):
            found = holds_something(self.parameter.grad, sink)
            # Kept means kept at every look.
            self.verdict = found if self.verdict is None else self.verdict * found

    def mark(self) -> None:
        """Renew the mark at the end of a backward pass: what the pass has added is no clearing."""
        if not is_cleared(self.verdict):
            self._mark = mark_of(self.parameter)


class Watching:
    """An optimizer and those few of its parameters whose gradients are judged.

    `marked_at` is the number of unobserved backward passes at the time when the marks were taken.
    """

    __slots__ = ("marked_at", "parameters", "reference")

    def __init__(self, optimizer: Optimizer) -> None:
        self.reference = weakref.ref(optimizer)
        self.parameters: list[KeptGradient] = []
        self.marked_at = -1

    def look(self, sink: ScalarSink, *, since: int) -> None:
        """Judge all gradients. `since` is the number of unobserved passes when the optimizer last stepped."""
        # They differ if the optimizer has stepped in a step without a look: the marks are out of date.
        if since != self.marked_at:
            self.marked_at = since
            for each in self.parameters:
                each.begin(marked=False)
        for each in self.parameters:
            each.look(sink)

    @property
    def has_gradients(self) -> bool:
        return any(mark_of(each.parameter) is not None for each in self.parameters)

    def choose(self, tensors: Sequence[Tensor]) -> None:
        """Choose the smallest parameters with a gradient; among equals, those at the end of the network."""
        having = [tensor for tensor in reversed(tensors) if mark_of(tensor) is not None]
        having = having or [tensor for tensor in reversed(tensors) if tensor.requires_grad]
        self.parameters = [
            KeptGradient(tensor) for tensor in sorted(having, key=Tensor.numel)[:MOST_LOOKED_AT]
        ]

    def verdicts(self, *, is_complete: bool) -> list[Verdict]:
        """Return one verdict, whether any gradient was kept, or nothing if none was judged.

        If passes were missed (not `is_complete`), only a clearing is certain; else the verdict is None.
        """
        known = [each.verdict for each in self.parameters if each.verdict is not None]
        if not known:
            return []
        return [highest(known) if is_complete or all(map(is_cleared, known)) else None]

    def begin(self, *, since: int) -> None:
        """Take marks: the optimizer has stepped."""
        self.marked_at = since
        for each in self.parameters:
            each.begin(marked=True)


class KeptGradients:
    """Judges gradients when an optimizer steps again: one that was cleared at any time in between is cleared.

    So gradients that a generator's loss leaves in a discriminator do not count, nor those of batches that are
    accumulated between two steps. Ordinary steps are only counted: `missed` is the number of backward passes
    without a look since the start, and `since` its value when an optimizer last stepped, by optimizer id.
    """

    def __init__(self, context: ProbeContext, sink: ScalarSink) -> None:
        self._context = context
        self._sink = sink
        self._watching: dict[int, Watching] = {}
        self._verdicts: list[Verdict] = []  # reached in this step
        self.missed = 0
        self.since: dict[int, int] = {}

    def end_step(self) -> None:
        if len(self.since) > MOST_OPTIMIZERS:  # the program makes optimizers for each step
            self.since.clear()
        if self._verdicts:
            known = [each for each in self._verdicts if each is not None]
            found = highest(known)
            # An unknown verdict could still turn 0.0 into 1.0, but never the other way round.
            if len(known) == len(self._verdicts) or (not isinstance(found, Tensor) and found == 1.0):
                self._sink.put(GRADIENTS_KEPT, found)
            self._verdicts = []

    def before_backward(self) -> None:
        """Judge the gradients, in a step whose losses are measured."""
        for number, watching in self._watching.items():
            optimizer = watching.reference()
            if optimizer is not None:
                if not watching.parameters:
                    watching.choose(self._tensors_of(optimizer))
                watching.look(self._sink, since=self.since.get(number, UNKNOWN))

    def after_backward(self) -> None:
        """Renew the marks, in a step whose losses are measured."""
        for watching in self._watching.values():
            for each in watching.parameters:
                each.mark()

    def stepped(self, optimizer: Optimizer) -> None:
        """Collect the verdicts on an optimizer's gradients after its step, in a measured step."""
        watching = self._watching.get(id(optimizer))
        if watching is None or watching.reference() is not optimizer:
            watching = self._watching_of(optimizer)
        elif watching.marked_at == self.since.get(id(optimizer), UNKNOWN):  # looked at since its last step
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
    """Return address and version of a parameter's gradient, or None if there is none that can be read."""
    gradient = parameter.grad
    if gradient is None or type(gradient) not in PLAIN_TYPES or gradient.layout is not torch.strided:
        return None
    return gradient.data_ptr(), gradient._version


def holds_something(gradient: Tensor | None, sink: ScalarSink) -> Tensor | float:
    if gradient is None or is_recorded(gradient.device):
        return 0.0
    with measuring(gradient.device):
        found = (gradient != 0).any()
        return float(found) if sink.reads(found) else found.float()


def is_cleared(verdict: Verdict) -> bool:
    return not isinstance(verdict, Tensor) and verdict == 0.0


def highest(values: Sequence[Tensor | float]) -> Tensor | float:
    """Return the highest verdict; those on a device are read only if no other is 1.0 already."""
    best = max((each for each in values if not isinstance(each, Tensor)), default=0.0)
    tensors = [each for each in values if isinstance(each, Tensor)]
    if best == 1.0 or not tensors:
        return best
    with measuring(tensors[0].device):
        return torch.stack([each.to(tensors[0].device) for each in tensors]).amax()
