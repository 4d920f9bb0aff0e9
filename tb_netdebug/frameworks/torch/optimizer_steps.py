"""Callbacks before and after the steps of all optimizers of the process.

torch keeps the hooks for all optimizers in dictionaries that it iterates over in every step: adding one while
another thread trains would break that thread's iteration and end its run. So torch has a single hook of ours,
from the first listener to the last, and the listeners are kept in a tuple that is replaced as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer

from tb_netdebug.frameworks.torch.hooks import HookEntry
from tb_netdebug.frameworks.torch.interception import uncompiled

Told = Callable[[Optimizer, Any, Any], None]


class OptimizerSteps:
    """Reports the steps that are about to begin, or those that have just ended, to its listeners."""

    def __init__(self, registry: dict[Any, Any]) -> None:
        self._registry = registry
        self._lock = threading.RLock()
        self._listeners: tuple[StepListener, ...] = ()
        self._hook: HookEntry | None = None

    def listen(self, told: Told) -> StepListener:
        """Add a listener, called after those before it. Its `remove` ends that."""
        listener = StepListener(self, told)
        with self._lock:
            self._listeners = (*self._listeners, listener)
            if self._hook is None:
                self._hook = HookEntry(self._registry, self._tell)
        return listener

    def put_last(self, listener: StepListener) -> None:
        """Call a listener after all others from now on. Does nothing if it has been removed."""
        with self._lock:
            if listener in self._listeners:
                self._listeners = (*(each for each in self._listeners if each is not listener), listener)

    def leave(self, listener: StepListener) -> None:
        """Remove a listener; the last one takes our hook out of torch."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)
            if not self._listeners and self._hook is not None:
                self._hook.remove()
                self._hook = None

    @uncompiled
    def _tell(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for listener in self._listeners:
            listener.told(optimizer, args, kwargs)


class StepListener:
    """A callback for the steps of all optimizers, until `remove`."""

    __slots__ = ("_steps", "told")

    def __init__(self, steps: OptimizerSteps, told: Told) -> None:
        self._steps = steps
        self.told = told

    def go_last(self) -> None:
        """Be called after all others. Safe from any thread, and after `remove`."""
        self._steps.put_last(self)

    def remove(self) -> None:
        """Stop listening. Harmless when called again."""
        self._steps.leave(self)


BEGINNING = OptimizerSteps(torch_optimizer._global_optimizer_pre_hooks)
ENDED = OptimizerSteps(torch_optimizer._global_optimizer_post_hooks)
