"""Makes way for torch.jit.script, which compiles the hooks of a module, too, and cannot compile ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from tb_netdebug.capture.torch_hooks import Hook

REGISTRIES = ("_forward_hooks", "_forward_pre_hooks")


class HiddenHooks:
    """Our hooks on the modules that are being compiled, from `hide` to `show`."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, list[tuple[Any, Any]]]] = []

    def hide(self, args: tuple[Any, ...]) -> None:
        """`args` are those of torch.jit.script: a module, a function, or several by name."""
        given = list(args[0].values()) if isinstance(args[0], Mapping) else [args[0]]
        for root in given:
            for module in root.modules() if isinstance(root, nn.Module) else ():
                for name in REGISTRIES:
                    self._hide_in(vars(module).get(name))

    def show(self, *_: Any) -> None:
        """Harmless when nothing is hidden; called again later in case the compiler has failed."""
        while self._before:
            registry, items = self._before.pop()
            registry.clear()
            registry.update(items)

    def _hide_in(self, registry: Any) -> None:
        if registry and any(isinstance(hook, Hook) for hook in registry.values()):
            self._before.append((registry, list(registry.items())))
            for key, hook in list(registry.items()):
                if isinstance(hook, Hook):
                    del registry[key]
