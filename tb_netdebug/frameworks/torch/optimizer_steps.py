"""The steps of all optimizers of the process, told to whoever listens.

torch keeps hooks for all optimizers in dictionaries that it goes through in every step: to add one while
another thread trains would end the training of that thread. So torch has one hook of ours, from the first
listener to the last, and listeners come and go in a tuple.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer

from tb_netdebug.frameworks.torch.hooks import HookEntry
from tb_netdebug.frameworks.torch.interception import unintercepted

Told = Callable[[Optimizer, Any, Any], None]


class OptimizerSteps:
    """Those that are about to begin, or those that have just ended."""

    def __init__(self, registry: dict[Any, Any]) -> None:
        self._registry = registry
        self._lock = threading.RLock()
        self._listeners: tuple[StepListener, ...] = ()
        self._hook: HookEntry | None = None

    def listen(self, told: Told) -> StepListener:
        """In the order in which they came; ends with `remove`."""
        listener = StepListener(self, told)
        with self._lock:
            self._listeners = (*self._listeners, listener)
            if self._hook is None:
                self._hook = HookEntry(self._registry, self._tell)
        return listener

    def put_last(self, listener: StepListener) -> None:
        """Told after all others from now on; nothing happens to one that has left."""
        with self._lock:
            if listener in self._listeners:
                self._listeners = (*(each for each in self._listeners if each is not listener), listener)

    def leave(self, listener: StepListener) -> None:
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)
            if not self._listeners and self._hook is not None:
                self._hook.remove()
                self._hook = None

    @unintercepted
    def _tell(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for listener in self._listeners:
            listener.told(optimizer, args, kwargs)


class StepListener:
    __slots__ = ("_steps", "told")

    def __init__(self, steps: OptimizerSteps, told: Told) -> None:
        self._steps = steps
        self.told = told

    def go_last(self) -> None:
        """May be called from any thread, also after `remove`."""
        self._steps.put_last(self)

    def remove(self) -> None:
        """Harmless when called again."""
        self._steps.leave(self)


BEGINNING = OptimizerSteps(torch_optimizer._global_optimizer_pre_hooks)
ENDED = OptimizerSteps(torch_optimizer._global_optimizer_post_hooks)
