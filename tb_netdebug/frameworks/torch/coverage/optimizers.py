"""Which tensors the optimizers hold, and which parameters of the watched models none of them holds."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from tb_netdebug.core.records.facts import OptimizerFact, ParameterGroup
from tb_netdebug.frameworks.torch.coverage.members import Member, state_of

MOST_GROUPS = 64
MOST_NAMES = 256
# Optimizers beyond this number are not described: a program may make one per step, or one per parameter.
MOST_OPTIMIZERS = 64
NOT_DESCRIBED = -1
# Programs unfreeze whole layers, so a sample of the frozen tensors, evenly spread, is enough to check per
# step.
MOST_FROZEN = 64

Kind = tuple[torch.Size, torch.dtype]


class SteppedOptimizer:
    """An optimizer that has stepped, and the tensors that it moves; neither is kept alive."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ids: tuple[int, ...] = ()
        self.is_told = number == NOT_DESCRIBED
        self.reference: weakref.ref[Optimizer] | None = None
        self._class_name = ""
        self._groups: tuple[ParameterGroup, ...] = ()
        self._kinds: dict[int, Kind] = {}

    def is_of(self, optimizer: Optimizer) -> bool:
        return self.reference is not None and self.reference() is optimizer

    @property
    def is_gone(self) -> bool:
        return self.reference is None or self.reference() is None

    def moves_any(self, members: Mapping[int, Member]) -> bool:
        return any(key in members for key in self.ids)

    def look(self, optimizer: Optimizer, ids: tuple[int, ...]) -> None:
        """Describe the optimizer anew, as it holds other tensors than before.

        Everything is copied: the optimizer may be gone when the fact is recorded.
        """
        self.ids = ids
        self.is_told = self.number == NOT_DESCRIBED
        self._class_name = type(optimizer).__name__
        self._groups = tuple(map(described, optimizer.param_groups[:MOST_GROUPS]))
        self._kinds = {
            id(tensor): (tensor.shape, tensor.dtype)
            for group in optimizer.param_groups
            for tensor in group["params"]
        }

    def strangers(self, members: Mapping[int, Member]) -> Counter[Kind]:
        """Return the shapes and types of tensors that it holds and no watched model owns."""
        return Counter(kind for key, kind in self._kinds.items() if key not in members)

    def fact(self, members: Mapping[int, Member], missing: Sequence[Member]) -> OptimizerFact:
        strangers = self.strangers(members)
        return OptimizerFact(
            id=self.number,
            class_name=self._class_name,
            groups=self._groups,
            parameters=len(self.ids),
            strangers=sum(strangers.values()),
            missing=tuple(member.name for member in missing[:MOST_NAMES]),
            missing_total=len(missing),
            missing_with_gradient=sum(member.tensor.grad is not None for member in missing),
            alike=are_alike(missing, strangers),
        )


class HeldTensors:
    """All optimizers that were seen. A parameter that any of them has held once is never missing again."""

    def __init__(self) -> None:
        self._by_id: dict[int, SteppedOptimizer] = {}
        self._made = 0
        self.ever: set[int] = set()

    def of(self, optimizer: Optimizer) -> SteppedOptimizer | None:
        """Return what is known of the optimizer; None when it is new."""
        known = self._by_id.get(id(optimizer))
        # An id is reused once its optimizer is gone.
        return known if known is not None and known.is_of(optimizer) else None

    def look(self, optimizer: Optimizer) -> SteppedOptimizer:
        """Update what is known of the optimizer, and return it."""
        ids = tuple(id(tensor) for group in optimizer.param_groups for tensor in group["params"])
        known = self.of(optimizer) or self._meet(optimizer, ids)
        if known.ids != ids:
            known.look(optimizer, ids)
        return known

    def look_again(self) -> None:
        """Update what is known of all optimizers."""
        for held in list(self._by_id.values()):
            optimizer = None if held.reference is None else held.reference()
            if optimizer is not None:
                self.look(optimizer)

    def hold(self, members: Mapping[int, Member], named: Sequence[Optimizer]) -> None:
        """Note which parameters are held now, also by optimizers `named` by the user but not stepped yet."""
        for held in self._by_id.values():
            self.ever.update(key for key in held.ids if key in members)
        for optimizer in named:
            if self.of(optimizer) is None:
                ids = (id(tensor) for group in optimizer.param_groups for tensor in group["params"])
                self.ever.update(key for key in ids if key in members)

    def __iter__(self) -> Iterator[SteppedOptimizer]:
        return iter(self._by_id.values())

    def _meet(self, optimizer: Optimizer, ids: tuple[int, ...]) -> SteppedOptimizer:
        """Register a new optimizer.

        One that replaces a deleted optimizer, with the same tensors, takes over its record.
        """
        gone = [key for key, held in self._by_id.items() if held.is_gone]
        again = next((self._by_id[key] for key in gone if self._by_id[key].ids == ids), None)
        for key in gone:
            del self._by_id[key]
        if again is None:
            again = SteppedOptimizer(self._made if self._made < MOST_OPTIMIZERS else NOT_DESCRIBED)
            self._made += 1
        again.reference = weakref.ref(optimizer)
        self._by_id[id(optimizer)] = again
        return again


class Missing:
    """Finds trainable parameters that no optimizer has.

    A parameter whose values change is trained by something other than torch's optimizers (master copies,
    sharded copies, averages of other weights), and does not count.
    """

    def __init__(self) -> None:
        self._states: dict[int, tuple[int, bytes] | None] = {}
        self._moved: set[int] = set()
        self._frozen: list[nn.Parameter] = []

    @property
    def has_thawed(self) -> bool:
        """Whether a parameter that was frozen at the last look is trainable now."""
        return bool(self._frozen) and any(tensor.requires_grad for tensor in self._frozen)

    def of(self, members: Mapping[int, Member], held: set[int]) -> list[Member]:
        """Return the members that no optimizer holds and that do not move."""
        found = []
        frozen = [each.tensor for each in members.values() if not each.tensor.requires_grad]
        self._frozen = frozen[:: len(frozen) // MOST_FROZEN + 1]
        for key, member in members.items():
            if key in held or not member.is_wanted or not member.tensor.requires_grad:
                continue
            if member.is_hidden:
                continue  # see unowned.py: it may be a teacher, kept out of the model on purpose
            state = state_of(member.tensor)
            if self._states.setdefault(key, state) != state:
                self._moved.add(key)
            if key not in self._moved:
                found.append(member)
        return found


def described(group: Mapping[str, Any]) -> ParameterGroup:
    rate, decay = number_in(group.get("lr")), number_in(group.get("weight_decay"))
    return ParameterGroup(rate, decay, len(group["params"]))


def are_alike(missing: Sequence[Member], strangers: Counter[Kind]) -> bool:
    """Return whether the optimizer holds a stranger of the same shape and type for each missing parameter."""
    return (
        bool(missing) and not Counter((each.tensor.shape, each.tensor.dtype) for each in missing) - strangers
    )


def number_in(value: Any) -> float | None:
    """Return a setting of an optimizer; None when it is on a device, which is never waited for."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.is_cpu and value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None
