"""Detects a trainer's first call of its model, and the optimizer step that is in progress by then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.optimizer_steps import BEGINNING, ENDED
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.integrations.torch_scripts.owners import parameter_ids, tensors_of

is_grad_enabled = torch.is_grad_enabled


class FirstCall:
    """Waits for the first training call of a module that has any of the trained parameters.

    `begin` is called before the module runs, so that the very first call can be recorded. `passed_over` are
    wrappers around the model: they are called before it, and are not it.
    """

    def __init__(
        self,
        optimizers: Sequence[Any],
        begin: Callable[[nn.Module], None],
        *,
        passed_over: Sequence[nn.Module] = (),
    ) -> None:
        self._trained = trained_ids(optimizers)
        self._begin = begin
        self._passed_over = {id(module) for module in passed_over}
        self._handle: Handle | None = listen(nn.Module._wrapped_call_impl, before=self._called)

    def close(self) -> None:
        """Remove the hook. May be called more than once."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _called(self, args: tuple[Any, ...]) -> None:
        module = args[0]
        if self._handle is None or id(module) in self._passed_over or not is_grad_enabled():
            return
        if not self._trained.isdisjoint(parameter_ids(module)):
            self.close()
            self._begin(module)


class StepGoingOn:
    """Records the optimizer step in progress, for optimizers that call the model in a closure (Lightning).

    Hooks that are installed during the step have missed its beginning: `catch_up` calls them.
    """

    def __init__(self) -> None:
        self._step: tuple[Any, Any, Any] | None = None
        self._known: set[int] = set()
        self._listeners = [BEGINNING.listen(self._begun), ENDED.listen(self._ended)]

    def close(self) -> None:
        """Remove the hooks. May be called more than once."""
        for listener in self._listeners:
            listener.remove()
        self._step = None

    def remember_hooks(self) -> None:
        """Note the hooks that exist already, before others are installed."""
        self._known = {id(hook) for hook in self._hooks()}

    def catch_up(self) -> None:
        """Call the hooks that were installed since `remember_hooks` with the beginning of the step."""
        for hook in self._hooks():
            if id(hook) not in self._known and self._step is not None:
                hook(*self._step)

    def _hooks(self) -> Iterable[Callable[[Any, Any, Any], object]]:
        if self._step is None:
            return []
        own = list(self._step[0]._optimizer_step_pre_hooks.values())
        return [*(listener.told for listener in BEGINNING._listeners), *own]

    def _begun(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._step = (optimizer, args, kwargs)

    def _ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._step = None


def trained_ids(optimizers: Sequence[Any]) -> set[int]:
    """Return the ids of all parameters that the optimizers update."""
    return {id(tensor) for optimizer in optimizers for tensor in tensors_of(optimizer)}
