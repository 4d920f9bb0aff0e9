"""Makes way for torch.jit.script, which compiles the hooks of a module, too, and cannot compile ours."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tb_netdebug.capture.pytorch.hooks import Hook

REGISTRIES = ("_forward_hooks", "_forward_pre_hooks")
# Called for each module that torch.jit.script is given. That itself must not be listened to: it looks for
# names in the frame that has called it.
MAKES_SCRIPT_MODULE = torch.jit._recursive.create_script_module

# A registry of hooks and all that was in it, in order.
Contents = tuple[Any, list[tuple[Any, Any]]]


class HiddenHooks:
    """Our hooks on the modules that are being compiled, from `hide` to `show`."""

    def __init__(self) -> None:
        self._hidden: list[tuple[Any, list[Contents]]] = []

    def hide(self, args: tuple[Any, ...]) -> None:
        """`args` are those of the function above."""
        root = args[0]
        modules = root.modules() if isinstance(root, nn.Module) else ()
        registries = [vars(module).get(name) for module in modules for name in REGISTRIES]
        ours = [each for each in registries if each and any(map(is_ours, each.values()))]
        self._hidden.append((root, [(each, list(each.items())) for each in ours]))
        for registry in ours:
            for key, hook in list(registry.items()):
                if is_ours(hook):
                    del registry[key]

    def show(self, args: tuple[Any, ...], _: Any = None) -> None:
        """Of this module, and of those inside it whose compilation has failed."""
        while self._hidden:
            root, contents = self._hidden.pop()
            for registry, items in contents:
                registry.clear()
                registry.update(items)
            if root is args[0]:
                break

    def show_all(self) -> None:
        """Called when nothing is being compiled: after a failure nobody has said so."""
        self.show((None,))


def is_ours(hook: Any) -> bool:
    return isinstance(hook, Hook)
