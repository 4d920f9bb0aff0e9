"""Tells the calls of watched models, by one pair of hooks on each for all who listen.

Each hook of its own would ask torch again whether the call is compiled, traced or recorded for gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.interception import OVERRIDING, PLAIN
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled

# Listeners get the module, its arguments and its keyword arguments; after the call its arguments and output.
# They may not raise.
Told = Callable[[nn.Module, Any, Any], None]


class ModuleCalls:
    """The calls of one module, and who is told of them: those that record gradients, and the evaluations.

    What they cost is charged to the step. Listeners are tuples, replaced as a whole: a call on another thread
    may be iterating over them.
    """

    def __init__(self, module: nn.Module, collector: StepCollector, guard: Guard) -> None:
        self._collector = collector
        self._guard = guard
        self.before: tuple[Told, ...] = ()
        self.after: tuple[Told, ...] = ()
        self.evaluating: tuple[Told, ...] = ()
        self._hooks = [
            before_forward(module, self._before, with_kwargs=True, looks=True),
            after_forward(module, self._after, looks=True),
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if is_compiling() or is_traced() or self._guard.is_off:
            return
        told = self.before if is_grad_enabled() else self.evaluating
        if not told:
            return
        started = now()
        is_plain = not kwargs and len(args) == 1 and type(args[0]) in PLAIN  # spelled out: the common case
        if not is_plain and OVERRIDING.appear_in((*args, *kwargs.values())):
            tell_out_of_sight(told, module, args, kwargs)
        else:
            for tell in told:
                tell(module, args, kwargs)
        self._collector.spent_secs += now() - started

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        started = now()
        if type(output) not in PLAIN and OVERRIDING.appear_in((output,)):
            tell_out_of_sight(self.after, module, args, output)
        else:
            for tell in self.after:
                tell(module, args, output)
        self._collector.spent_secs += now() - started


def tell_out_of_sight(told: tuple[Told, ...], *call: Any) -> None:
    """Tell of a call with a value whose class overrides functions, perhaps of a class just seen."""
    with torch._C.DisableTorchFunction():
        for tell in told:
            tell(*call)


class CallHooks:
    """The watched modules by id, each with its listeners until `close`."""

    def __init__(self, collector: StepCollector, guard: Guard) -> None:
        self._collector = collector
        self._guard = guard
        self._modules: dict[int, ModuleCalls] = {}

    def listen(
        self, module: nn.Module, *, before: Told | None = None, after: Told | None = None,
        evaluating: Told | None = None,
    ) -> None:  # fmt: skip
        """Call `before(module, args, kwargs)` and `after(module, args, output)` around each call.

        These are calls that record gradients; `evaluating` is told of the beginning of all others.
        """
        calls = self._modules.get(id(module))
        if calls is None:
            calls = self._modules[id(module)] = ModuleCalls(module, self._collector, self._guard)
        if before is not None:
            calls.before = (*calls.before, before)
        if after is not None:
            calls.after = (*calls.after, after)
        if evaluating is not None:
            calls.evaluating = (*calls.evaluating, evaluating)

    def close(self) -> None:
        """Take all hooks off."""
        for calls in self._modules.values():
            calls.close()
        self._modules.clear()
