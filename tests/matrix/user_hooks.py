"""Hooks as users register them, of every sort, which write down in which order they were called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module


class UserHooks:
    """On the root and on one layer of a model, and on all modules together."""

    def __init__(self, model: nn.Module) -> None:
        self._places = {
            "root": model,
            "layer": next(each for each in model.modules() if not list(each.children())),
        }
        self._handles: list[Any] = []
        self._told: list[str] = []

    def put_on(self, when: str) -> None:
        for place, module in self._places.items():
            if isinstance(module, (nn.Module,)) and type(module).__name__ != "RecursiveScriptModule":
                self._put_on(module, f"{when} {place}")
        told = self._hook(f"{when} everywhere")
        self._handles += [
            torch_module.register_module_forward_hook(told, always_call=True),
            torch_module.register_module_forward_pre_hook(told),
        ]

    def _put_on(self, module: nn.Module, words: str) -> None:
        told = self._hook
        self._handles += [
            module.register_forward_pre_hook(told(f"{words} pre")),
            module.register_forward_pre_hook(told(f"{words} pre first"), prepend=True),
            module.register_forward_pre_hook(told(f"{words} pre keywords"), with_kwargs=True),
            module.register_forward_hook(told(f"{words} hook")),
            module.register_forward_hook(told(f"{words} hook first"), prepend=True),
            module.register_forward_hook(told(f"{words} keywords"), with_kwargs=True),
            module.register_forward_hook(told(f"{words} always"), always_call=True),
            module.register_full_backward_hook(told(f"{words} backward")),
            module.register_full_backward_hook(told(f"{words} backward first"), prepend=True),
            module.register_full_backward_pre_hook(told(f"{words} backward pre")),
            module.register_state_dict_pre_hook(told(f"{words} state")),
        ]

    def _hook(self, words: str) -> Callable[..., None]:
        def hook(*given: Any, **_: Any) -> None:
            kinds = [type(each).__name__ for each in given]
            self._told.append(f"{words} {len(given)} {kinds}")

        return hook

    def take_off(self, *, every: int = 1) -> None:
        """Every second one, or the like; they are called by their handles, twice."""
        gone, self._handles = (
            self._handles[::every],
            [each for number, each in enumerate(self._handles) if number % every],
        )
        for handle in gone:
            handle.remove()
            handle.remove()

    def told(self) -> list[str]:
        """Since the last time."""
        told, self._told = self._told, []
        return told
