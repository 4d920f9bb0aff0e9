"""The order in which a model's modules are called, and the last module whose gradients went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.hooks import before_forward, is_too_deep
from tb_netdebug.frameworks.torch.numerics.flags import NonFiniteFlags, flags_of
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, names_of


class CallOrder:
    """Learns the order from the first call of each module with own parameters, then removes that hook."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        self._order: dict[int, int] = {}
        self._hooks: dict[int, Any] = {}
        for model in models.values():
            for name, module in model.named_modules():
                is_known = id(module) in self._hooks
                if module._parameters and not (is_known or is_too_deep(name, module)):
                    self._hooks[id(module)] = before_forward(module, self._note)

    def of(self, module: nn.Module) -> int:
        """Return the position of a module's first call, or -1 if it was not called as a module."""
        return self._order.get(id(module), -1)

    def close(self) -> None:
        for hook in self._hooks.values():
            hook.remove()
        self._hooks.clear()

    def _note(self, module: nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._order.setdefault(id(module), len(self._order))
        hook = self._hooks.pop(id(module), None)
        if hook is not None:
            hook.remove()


def last_bad_module(
    parameters: Sequence[torch.Tensor], models: Mapping[str, nn.Module], order: CallOrder
) -> Origin | None:
    """Return the module where bad gradients began, or None if there are none.

    Backward runs from the last module to the first, so it is the last one with a bad gradient.
    """
    wanted = {id(each) for each in parameters}
    bad: list[tuple[tuple[int, int], nn.Module, NonFiniteFlags]] = []
    for model in models.values():
        for number, module in enumerate(model.modules()):
            for parameter in module._parameters.values():
                if parameter is None or id(parameter) not in wanted or parameter.grad is None:
                    continue
                if (found := flags_of(parameter.grad)).any:
                    bad.append(((order.of(module), number), module, found))
    if not bad:
        return None
    _, module, found = max(bad, key=lambda each: each[0])
    where, class_name = names_of(models)[id(module)]
    return Origin("gradient", where, class_name, found.kind, 0)
