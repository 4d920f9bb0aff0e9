"""Stops before each operation, while that is wanted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tb_netdebug.debugger.place import BEFORE, Place
from tb_netdebug.frameworks.torch.interception import popped, pushed
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayers
from tb_netdebug.frameworks.torch.stepping.running import running
from tb_netdebug.frameworks.torch.stepping.spans import Spans, current_node
from tb_netdebug.frameworks.torch.stepping.visits import Visits, current_backward

# They compute nothing: marks for torch's profiler.
SKIPPED = ("profiler",)


class OpMode(TorchDispatchMode):
    """Passes every operation on as it came, after telling of it."""

    def __init__(self, told: Callable[[Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._told = told
        self._local = threading.local()
        self.is_on = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    @property
    def is_inside(self) -> bool:
        """Whether this thread is within an operation: torch has the mode in its hands, and puts it back."""
        return bool(getattr(self._local, "depth", 0))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._local.depth = getattr(self._local, "depth", 0) + 1
        try:
            if self.is_on and func.namespace not in SKIPPED:
                self._told(func)
            return func(*args, **(kwargs or {}))
        finally:
            self._local.depth -= 1


class OpStops:
    """The mode lies below all others, so those of the user's are taken off in the order they were put on.

    It goes on and off at moments when that is safe (`settle`), and passes operations on unseen until then. In
    the backward pass torch gives each operation the modes that were on when the pass began; what comes later
    goes on again at each operation of the graph.
    """

    def __init__(self, layers: SteppedLayers, spans: Spans, visits: Callable[[], Visits]) -> None:
        self._layers = layers
        self._spans = spans
        self._visits = visits
        self._mode = OpMode(self._told)
        self._hooks: list[Any] = []  # on the operations of a graph
        self.is_put = False

    @property
    def are_wanted(self) -> bool:
        return self._mode.is_on

    def want(self, is_wanted: bool) -> None:
        self._mode.is_on = is_wanted

    def settle(self) -> None:
        """On the thread that trains. Costs next to nothing where nothing is to be done."""
        if not self._mode.is_on and not self.is_put:
            return
        visits = self._visits()
        if self._mode.is_inside or visits.is_paused or get_ident() != visits.thread:
            return
        in_backward = current_backward() != -1
        was_there = self._put()
        if self._mode.is_on and in_backward and not was_there and not self._hooks:
            self._follow_rest()
        # What is done to the modes in a backward pass is forgotten after it.
        self.is_put = self._mode.is_on or in_backward

    def end_batch(self) -> None:
        """The end of a backward pass will do as well."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _put(self, *_: Any) -> bool:
        """To the bottom, or off; whether it was there."""
        modes = popped()
        rest = [mode for mode in modes if mode is not self._mode]
        pushed([*rest, self._mode] if self._mode.is_on else rest)
        return len(rest) < len(modes)

    def _follow_rest(self) -> None:
        """The operations that are still to come in this pass."""
        waiting = [] if current_node is None else [current_node()]
        seen: set[Any] = set(waiting)
        while waiting:
            for node, _ in waiting.pop().next_functions:
                if node is not None and node not in seen:
                    seen.add(node)
                    waiting.append(node)
                    self._hooks.append(node.register_prehook(self._put_again))

    def _put_again(self, _: Any) -> None:
        if self._mode.is_on and not self._mode.is_inside:
            self._put()

    def _told(self, operation: Any) -> None:
        visits = self._visits()
        if not visits.are_wanted:
            return
        # The nearest frames are the mode's own.
        where = running(sys._getframe(2), self._layers, self._spans)
        if where is None:
            return
        phase, layer = where
        name, class_name = (None, None) if layer is None else (layer.name, layer.class_name)
        visits.visit(Place(phase, name, class_name, BEFORE, str(operation)))
