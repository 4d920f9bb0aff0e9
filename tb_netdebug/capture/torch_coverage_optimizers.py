"""Which tensors the optimizers hold, and which parameters of the watched models none of them does."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.capture.torch_coverage_members import Member, state_of

MOST_GROUPS = 64
MOST_NAMES = 256
# More than these (a program may make one for every step, or one for each parameter) are not described.
MOST_OPTIMIZERS = 64
NOT_DESCRIBED = -1

Shapes = Counter[tuple[torch.Size, torch.dtype]]


class Held:
    """An optimizer that has stepped, and the tensors that it moves; neither is kept alive."""

    __slots__ = ("ids", "is_told", "number", "reference")

    def __init__(self, optimizer: Optimizer, number: int) -> None:
        self.reference = weakref.ref(optimizer)
        self.number = number
        self.ids: tuple[int, ...] = ()
        self.is_told = False


class HeldTensors:
    """All optimizers that were seen. A parameter that one of them has once held is not missing any more."""

    def __init__(self) -> None:
        self._by_id: dict[int, Held] = {}
        self._made = 0
        self.ever: set[int] = set()

    def of(self, optimizer: Optimizer) -> Held | None:
        """What is known of it; None when it is new."""
        known = self._by_id.get(id(optimizer))
        return known if known is not None and known.reference() is optimizer else None

    def look(self, optimizer: Optimizer) -> Held:
        """Brings what is known of it up to date."""
        ids = tuple(id(tensor) for group in optimizer.param_groups for tensor in group["params"])
        known = self.of(optimizer) or self._meet(optimizer, ids)
        if known.ids != ids:
            known.ids = ids
            known.is_told = False
            self.ever.update(ids)
        return known

    def hold(self, optimizers: Sequence[Optimizer]) -> None:
        """Optimizers that the user has named, before they step."""
        for optimizer in optimizers:
            if self.of(optimizer) is None:
                self.ever.update(id(tensor) for group in optimizer.param_groups for tensor in group["params"])

    def holds_copies_of(self, missing: Sequence[Member], members: Mapping[int, Member]) -> bool:
        """Whether one of them holds as many tensors like these that belong to no watched model."""
        return any(are_alike(missing, strangers_of(optimizer, members)) for _, optimizer in self.alive())

    def alive(self) -> list[tuple[Held, Optimizer]]:
        return [(held, one) for held in self._by_id.values() if (one := held.reference()) is not None]

    def _meet(self, optimizer: Optimizer, ids: tuple[int, ...]) -> Held:
        """One that takes the place of another that is gone, with the same tensors, is that one again."""
        gone = [key for key, held in self._by_id.items() if held.reference() is None]
        again = next((self._by_id[key] for key in gone if self._by_id[key].ids == ids), None)
        for key in gone:
            del self._by_id[key]
        if again is None:
            again = Held(optimizer, self._made if self._made < MOST_OPTIMIZERS else NOT_DESCRIBED)
            self._made += 1
        again.reference = weakref.ref(optimizer)
        self._by_id[id(optimizer)] = again
        return again


class Missing:
    """The trainable parameters that no optimizer has.

    One whose values change is trained by something else than torch's optimizers (master copies, sharded ones,
    averages of other weights), and does not count.
    """

    def __init__(self) -> None:
        self._states: dict[int, tuple[int, bytes] | None] = {}
        self._moved: set[int] = set()

    def of(self, members: Mapping[int, Member], held: set[int]) -> list[Member]:
        found = []
        for key, member in members.items():
            if key in held or not member.is_wanted or not member.tensor.requires_grad:
                continue
            state = state_of(member.tensor)
            if self._states.setdefault(key, state) != state:
                self._moved.add(key)
            if key not in self._moved:
                found.append(member)
        return found


def described(
    held: Held, optimizer: Optimizer, members: Mapping[int, Member], missing: Sequence[Member]
) -> dict[str, Any]:
    """The fact."""
    groups = [
        {
            "lr": number_in(group.get("lr")),
            "weight_decay": number_in(group.get("weight_decay")),
            "parameters": len(group["params"]),
        }
        for group in optimizer.param_groups[:MOST_GROUPS]
    ]
    strangers = strangers_of(optimizer, members)
    return {
        "id": held.number,
        "class": type(optimizer).__name__,
        "groups": groups,
        "parameters": len(held.ids),
        "strangers": strangers.total(),
        "missing": [member.name for member in missing[:MOST_NAMES]],
        "missing_total": len(missing),
        "missing_with_gradient": sum(member.tensor.grad is not None for member in missing),
        "alike": are_alike(missing, strangers),
    }


def strangers_of(optimizer: Optimizer, members: Mapping[int, Member]) -> Shapes:
    """What it holds and no watched model does."""
    return Counter(
        (tensor.shape, tensor.dtype)
        for group in optimizer.param_groups
        for tensor in group["params"]
        if id(tensor) not in members
    )


def are_alike(missing: Sequence[Member], strangers: Shapes) -> bool:
    """Whether the optimizer holds a stranger for each parameter that is missing."""
    return (
        bool(missing) and not Counter((each.tensor.shape, each.tensor.dtype) for each in missing) - strangers
    )


def number_in(value: Any) -> float | None:
    """A setting of an optimizer; one that lies on a device is not waited for."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.is_cpu and value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None
