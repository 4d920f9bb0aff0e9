"""Finds out whether modules without gradients are called at all, and in which order they run."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

from tb_netdebug.core.records.facts import Names
from tb_netdebug.frameworks.torch.coverage.members import Member
from tb_netdebug.frameworks.torch.hooks import before_forward, is_too_deep

is_compiling = torch.compiler.is_compiling


@dataclass(frozen=True, slots=True)
class WatchedCalls:
    """Which modules were called so far, only without gradients, and not at all; None before anybody asked."""

    called: Names | None = None
    called_without_grad: Names | None = None
    uncalled: Names | None = None

    def among(self, owners: Container[str]) -> WatchedCalls:
        """Return the same of these modules only."""
        lists = (self.called, self.called_without_grad, self.uncalled)
        return WatchedCalls(*(None if names is None else kept(names, owners) for names in lists))


class CallWatch:
    """Hooks on the owners of parameters, for one step at a time and until they are called."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._owners: dict[str, None] = {}
        self._called: dict[str, None] = {}
        self._called_without_grad: dict[str, None] = {}

    @property
    def is_on(self) -> bool:
        return bool(self._hooks)

    def ask(self, members: Sequence[Member], models: Mapping[str, nn.Module]) -> None:
        """Watch the owners of these parameters in the next step.

        A compiled model gets no hooks: they would make it compile again.
        """
        owners = {
            member.owner_name: member.owner
            for member in members
            if member.owner_name not in self._called and not is_too_deep(member.owner_name, member.owner)
        }
        if self.is_on or not owners or any(is_compiled(each) for each in models.values()):
            return
        self._owners.update(dict.fromkeys(owners))
        self._hooks = [before_forward(module, partial(self._note, name)) for name, module in owners.items()]

    def answer(self) -> WatchedCalls:
        """Remove the hooks and return which modules were called."""
        self.close()
        without = [name for name in self._called_without_grad if name not in self._called]
        seen = {*self._called, *without}
        uncalled = tuple(name for name in self._owners if name not in seen)
        return WatchedCalls(tuple(self._called), tuple(without), uncalled)

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _note(self, name: str, *_: Any) -> None:
        if is_compiling():
            return
        (self._called if torch.is_grad_enabled() else self._called_without_grad)[name] = None


def kept(names: Names, wanted: Container[str]) -> Names:
    return tuple(name for name in names if name in wanted)


def is_compiled(model: nn.Module) -> bool:
    """Return whether the model or any module inside it is compiled."""
    return any(
        isinstance(module, OptimizedModule) or module._compiled_call_impl is not None
        for module in model.modules()
    )
