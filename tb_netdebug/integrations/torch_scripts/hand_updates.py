"""Detects updates without an optimizer of torch: parameters that change along their gradients.

A few values of the differentiated tensors are kept, because a write through `.data` leaves no other trace.
Nothing is examined while the program has an optimizer.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch

from tb_netdebug.frameworks.torch.stepping.quiet import reading
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped

MOST_NODES = 20_000
# Few, because on a device each reading of them waits for it.
MOST_TENSORS, MOST_VALUES = 16, 16
# Once a run is found, its steps are detected by these alone.
MOST_TENSORS_OF_A_STEP = 2
# The graph is walked in the first 64 backward passes, and in two of every 64 from then on.
MOST_LOOKS, LOOKS_APART = 64, 64
MOST_LOOKS_OF_ONE = 4
# In standard deviations of what changes unrelated to the gradients would show.
CLEAR = 4.0
# The cosine of a plain gradient step is 1, but for rounding.
SAME_DIRECTION = 0.999
LEAST_OF_A_DIRECTION = 3


@dataclass(slots=True)
class Sampled:
    """A tensor, a few of its values before the update, and its gradients there."""

    tensor: weakref.ref[Any]
    places: tuple[torch.Tensor, ...]
    values: list[float]
    gradients: list[float]

    def changes(self) -> list[float] | None:
        """Return how the values have changed since, or None when they cannot be read any more."""
        tensor = self.tensor()
        now = None if tensor is None else values_at(tensor, self.places)
        if now is None:
            return None
        return [after - before for after, before in zip(now, self.values, strict=True)]

    def broken_along(self, changes: Sequence[float]) -> int:
        """Count the values that became non-finite where the gradient was non-finite."""
        return sum(
            math.isfinite(value) and not math.isfinite(change) and not math.isfinite(slope)
            for value, change, slope in zip(self.values, changes, self.gradients, strict=True)
        )


class HandUpdates:
    """Decides whether parameters follow their gradients.

    `before` and `after` are called around each backward pass.
    """

    def __init__(self) -> None:
        self.passes = 0
        self.passes_since = 0  # since the last new model
        self.passes_of_step = 0
        self._passes_so_far = 0
        self.has_seen_changes = False
        self._candidates: list[Any] = []
        self._kept: list[Sampled] = []
        self._looks_left = 0
        self._evidence, self._times = 0.0, 0

    def before(self, roots: Any, *, known: Set[int]) -> None:
        """Find the leaves of the pass, except the tensors whose ids are in `known`."""
        self.passes += 1
        self.passes_since += 1
        self._passes_so_far += 1
        leaves = leaves_of(roots) if self._is_due() else []
        self._candidates = [each for each in leaves if id(each) not in known]

    def after(self) -> None:
        """Sample the leaves, which have their gradients now."""
        candidates, self._candidates = self._candidates, []
        if candidates:
            self._kept = sampled(candidates, MOST_TENSORS)
            self._looks_left = MOST_LOOKS_OF_ONE

    def is_looking(self) -> bool:
        """Return whether there are samples to compare with."""
        return bool(self._kept)

    def updated(self, *, is_last_look: bool) -> list[Any]:
        """Return the tensors that follow their gradients, once that is clear.

        They are compared a few times until the next backward pass, and once more when it begins
        (`is_last_look`).
        """
        if not self._kept or (self._looks_left <= 0 and not is_last_look):
            return []
        self._looks_left -= 1
        changed = [(each, found) for each in self._kept if (found := each.changes()) and any(found)]
        if not changed:
            return []
        self._kept = []
        self.passes_of_step, self._passes_so_far = self._passes_so_far, 0
        self.has_seen_changes = True
        # A sum of n independent standard normal values has the standard deviation sqrt(n).
        self._evidence += clearness(changed)
        self._times += 1
        if abs(self._evidence) / math.sqrt(self._times) < CLEAR:
            return []
        tensors = (each.tensor() for each, _ in changed)
        self._evidence, self._times = 0.0, 0
        return [each for each in tensors if each is not None]

    def forget(self) -> None:
        self._kept, self._candidates = [], []

    def _is_due(self) -> bool:
        return self.passes_since <= MOST_LOOKS or self.passes_since % LOOKS_APART < 2


class HandSteps:
    """Detects the ends of the steps of a run whose updates are made by hand."""

    def __init__(self, tensors: Sequence[Any], roots: Iterable[int], *, passes: int) -> None:
        self.roots = frozenset(roots)
        self._usual_passes, self._passes = passes, 0
        self._tensors = [weakref.ref(each) for each in tensors[:MOST_TENSORS_OF_A_STEP]]
        self._kept: list[Sampled] = []

    def after(self) -> bool:
        """Take note that a backward pass has ended, perhaps of another model.

        Return whether it is the last one of the step, judging by the step before: gradients may be
        accumulated.
        """
        tensors = [tensor for each in self._tensors if (tensor := each()) is not None]
        self._kept = sampled(tensors, MOST_TENSORS_OF_A_STEP)
        self._passes += 1
        return self._passes == self._usual_passes

    def is_over(self) -> bool:
        """Return whether the weights have changed since the last pass, or could not; True once per step.

        They cannot change if all gradients are zero, or if gradients are not finite.
        """
        if not self._kept:
            return False
        changes = [found for each in self._kept if (found := each.changes()) is not None]
        slopes = [slope for each in self._kept for slope in each.gradients]
        has_changed = any(any(found) for found in changes)
        is_stuck = not any(slopes) or not all(map(math.isfinite, slopes))
        if has_changed or is_stuck:
            self._kept = []
            self._usual_passes, self._passes = self._passes, 0
            return True
        return False


def leaves_of(roots: Any) -> list[Any]:
    """Return the tensors that a backward pass from here will give gradients to, each once."""
    waiting = [each.grad_fn for each in listed(roots) if isinstance(each, torch.Tensor) and each.grad_fn]
    seen = set(waiting)
    found: dict[int, Any] = {}
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(found.values())


def listed(roots: Any) -> list[Any]:
    return [roots] if isinstance(roots, torch.Tensor) else list(roots)


def sampled(tensors: Sequence[Any], most: int) -> list[Sampled]:
    """Return samples of some tensors, evenly chosen; those that cannot be read are left out."""
    apart = max(len(tensors) / most, 1.0)
    chosen = [tensors[int(number * apart)] for number in range(min(len(tensors), most))]
    return [found for each in chosen if (found := sample_of(each)) is not None]


def sample_of(tensor: Any) -> Sampled | None:
    """Return a sample of a tensor, or None if it has no gradient or cannot be read."""
    gradient = tensor.grad
    if gradient is None or not tensor.numel() or is_functorch_wrapped(tensor):
        return None
    places = places_in(tensor)
    values, gradients = values_at(tensor, places), values_at(gradient, places)
    if values is None or gradients is None:
        return None
    return Sampled(weakref.ref(tensor), places, values, gradients)


def places_in(tensor: Any) -> tuple[torch.Tensor, ...]:
    """Return the indices of evenly spread values of a tensor, one vector for each dimension."""
    size = tensor.numel()
    count = min(size, MOST_VALUES)
    with reading():
        flat = torch.tensor([number * size // count for number in range(count)], device="cpu")
        found = []
        for length in reversed(tensor.shape):
            found.append(flat % length)
            flat = flat // length
    return tuple(reversed(found))


def values_at(tensor: Any, places: tuple[torch.Tensor, ...]) -> list[float] | None:
    """Return the values at these places, or None where they cannot be picked (sparse, quantized, DTensor)."""
    if tensor.layout is not torch.strided or tensor.is_complex() or hasattr(tensor, "_local_tensor"):
        return None
    try:
        with reading():
            picked = tensor.detach()[tuple(each.to(tensor.device) for each in places)]
            found: list[float] = picked.to("cpu", torch.float64).reshape(-1).tolist()
    except (RuntimeError, IndexError, NotImplementedError, TypeError):
        return None
    return found


def clearness(changed: Sequence[tuple[Sampled, list[float]]]) -> float:
    """Return how clearly the changes follow the gradients (above 0) or go against them (below).

    It is the cosine between the two, in standard deviations of its value for unrelated vectors.
    """
    if sum(each.broken_along(changes) for each, changes in changed) >= LEAST_OF_A_DIRECTION:
        return CLEAR
    pairs = [
        (change, slope)
        for each, changes in changed
        for change, slope in zip(changes, each.gradients, strict=True)
        if math.isfinite(change) and math.isfinite(slope) and (change or slope)
    ]
    length = math.sqrt(sum(change**2 for change, _ in pairs) * sum(slope**2 for _, slope in pairs))
    if not length:
        return 0.0
    cosine = sum(change * slope for change, slope in pairs) / length
    if abs(cosine) > SAME_DIRECTION and len(pairs) >= LEAST_OF_A_DIRECTION:
        return math.copysign(CLEAR, cosine)
    return cosine * math.sqrt(len(pairs))
