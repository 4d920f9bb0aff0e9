"""Finds parameters that a loss depends on but nobody trains: in no watched model and in no optimizer."""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from tb_netdebug.core.records.facts import UnownedFact
from tb_netdebug.frameworks.torch.batches.contents import is_on_host, selection
from tb_netdebug.frameworks.torch.coverage.members import Member, state_of
from tb_netdebug.frameworks.torch.coverage.reached import Reached, reached_by
from tb_netdebug.frameworks.torch.host_arrays import array_over

# The training steps in which graphs are walked, for a few backward passes each.
STEPS_LOOKED_AT = frozenset({0, 1, 16})
MOST_PASSES = 4
# A layer inside the model is missing at once. Another network may have an optimizer that rarely steps.
STEPS_BEFORE_INSIDE = 2
STEPS_BEFORE_OUTSIDE = 17
MOST_TENSORS = 4096
MOST_NAMED = 16
VALUES_READ = 4096
# The spread of fewer values says nothing about how they were drawn.
FEWEST_VALUES = 16


class Unowned:
    """Tracks unowned parameters: `look` before backward passes, `news` after steps, until it `is_over`."""

    def __init__(self) -> None:
        self._found: dict[int, UnownedParameter] = {}
        self._owned: set[int] = set()
        self._rivals: set[int] = set()
        self._passes = 0
        self._step = -1
        self._told: dict[str, tuple[int, ...]] = {}

    def wants(self, step: int) -> bool:
        """Return whether to look in this step, counted in steps in which an optimizer has stepped."""
        if step != self._step:
            self._step, self._passes = step, 0
        return step in STEPS_LOOKED_AT and self._passes < MOST_PASSES

    @staticmethod
    def is_over(steps: int) -> bool:
        return steps > STEPS_BEFORE_OUTSIDE

    def look(self, roots: Sequence[torch.Tensor], members: Mapping[int, Member]) -> None:
        """Note the parameters behind the roots that belong to no watched model."""
        self._passes += 1
        visible = {key for key, member in members.items() if not member.is_hidden}
        for key, reached in reached_by(roots, visible).items():
            known = self._found.get(key)
            # An id is reused once its tensor is gone.
            if known is None or known.tensor is not reached.tensor:
                if len(self._found) >= MOST_TENSORS:
                    continue
                known = self._found[key] = UnownedParameter(reached)
            known.add(reached, self._step)

    def news(
        self, steps: int, members: Mapping[int, Member], held: Iterator[Sequence[int]]
    ) -> Iterator[UnownedFact]:
        """Yield the facts that have changed after so many training steps.

        `held` are the ids of the tensors of each optimizer.
        """
        for ids in held:
            owned = {key for key in ids if key in self._found}
            self._owned |= owned
            if owned and members.keys().isdisjoint(ids):
                self._rivals |= owned
        names = {key: member.name for key, member in members.items() if member.is_hidden}
        groups: dict[str, list[UnownedParameter]] = {"inside": [], "outside": []}
        for key, found in self._found.items():
            if key in self._owned or found.is_moved or (key in members and key not in names):
                continue
            is_inside = found.is_between or key in names
            if found.is_used and found.looks > 1 and steps >= ripe_after(is_inside):
                groups["inside" if is_inside else "outside"].append(found)
        for place, group in groups.items():
            told = tuple(found.key for found in group)
            if told != self._told.get(place, ()):
                self._told[place] = told
                yield fact(place, group, names, members)

    def elsewhere(self) -> int:
        """Return how many parameters of the loss are trained by an optimizer of their own.

        That optimizer holds nothing of the watched models, as that of a rival network does.
        """
        return sum(found.is_used for key, found in self._found.items() if key in self._rivals)


class UnownedParameter:
    """A parameter of no watched model, held by a weak reference."""

    def __init__(self, reached: Reached) -> None:
        tensor = reached.tensor
        self.key = id(tensor)
        self.shape = tuple(tensor.shape)
        self.looks = 0
        self._reference = weakref.ref(tensor)
        self._state = mark_of(tensor)
        self._is_before = self._is_behind = False
        self._step = -1
        self.is_fresh = is_fresh(tensor)

    @property
    def tensor(self) -> nn.Parameter | None:
        return self._reference()

    @property
    def is_used(self) -> bool:
        """Whether it is used together with results of the watched models, as not all parts of a loss are."""
        return self._is_before or self._is_behind

    @property
    def is_between(self) -> bool:
        return self._is_before and self._is_behind

    @property
    def is_moved(self) -> bool:
        """Whether something other than torch's optimizers has moved it, or it is gone."""
        tensor = self.tensor
        return tensor is None or mark_of(tensor) != self._state

    def add(self, reached: Reached, step: int) -> None:
        """Note another look. Looks are counted per step, not per pass."""
        self.looks += step != self._step
        self._step = step
        self._is_before |= reached.is_before
        self._is_behind |= reached.is_behind


def ripe_after(is_inside: bool) -> int:
    return STEPS_BEFORE_INSIDE if is_inside else STEPS_BEFORE_OUTSIDE


def fact(
    place: str, group: Sequence[UnownedParameter], names: Mapping[int, str], members: Mapping[int, Member]
) -> UnownedFact:
    shapes = Counter(found.shape for found in group)
    known = Counter(tuple(member.tensor.shape) for member in members.values())
    fresh = [found.is_fresh for found in group if len(found.shape) > 1]
    return UnownedFact(
        id=place,
        tensors=len(group),
        values=sum(math.prod(found.shape) for found in group),
        values_of_models=sum(each.tensor.numel() for each in members.values() if not each.is_hidden),
        names=tuple(sorted(names[found.key] for found in group if found.key in names)[:MOST_NAMED]),
        shapes=tuple(shapes)[:MOST_NAMED],
        fresh=bool(fresh) and sum(fresh) >= len(fresh) / 2,
        twin=bool(group) and not shapes - known,
    )


def mark_of(tensor: nn.Parameter) -> Any:
    """Return a value that changes with the tensor's, as far as that is known without waiting for a device."""
    return state_of(tensor) or (0 if tensor.is_inference() else tensor._version)


def is_fresh(tensor: nn.Parameter) -> bool:
    """Return whether the tensor looks as random as torch initialises it; False where that is unknown.

    That is uniform, or normal with a standard deviation of 1. Trained weights have longer tails.
    """
    if tensor.dim() < 2 or tensor.dtype not in (torch.float32, torch.float64) or not is_on_host(tensor):
        return False
    bits = array_over(tensor)
    values = selection(bits, VALUES_READ) if bits is not None else np.zeros(0)
    if values.size < FEWEST_VALUES or not np.isfinite(values).all():
        return False
    spread, largest = float(values.std()), float(np.abs(values).max())
    # The spread of n random values is itself uncertain by about 1 / sqrt(2 n).
    doubt = 3.0 / math.sqrt(values.size)
    # Values that are uniform between -a and a have a spread of a / sqrt(3).
    is_even = spread > 0 and abs(largest / (math.sqrt(3.0) * spread) - 1.0) < min(0.05 + doubt, 0.3)
    return is_even or abs(spread - 1.0) < doubt
