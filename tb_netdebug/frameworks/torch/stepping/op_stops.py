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

# Namespaces of operations that compute nothing: marks for torch's profiler.
SKIPPED = ("profiler",)


class OpMode(TorchDispatchMode):
    """A dispatch mode that reports every operation and then passes it on unchanged."""

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
        """Whether this thread is within an operation: torch then holds the mode and will put it back."""
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
    """Puts the mode below all others, so that the user's modes still find themselves on top to be popped.

    The mode goes on and off only when that is safe (`settle`). Until then it passes operations on unreported.
    In the backward pass, torch gives each operation the modes that were on when the pass began. A mode that
    came later has to be put on again at each operation of the graph.
    """

    def __init__(self, layers: SteppedLayers, spans: Spans, visits: Callable[[], Visits]) -> None:
        self._layers = layers
        self._spans = spans
        self._visits = visits
        self._mode = OpMode(self._told)
        self._hooks: list[Any] = []  # pre-hooks on the operations of a graph
        self.is_put = False

    @property
    def are_wanted(self) -> bool:
        return self._mode.is_on

    def want(self, is_wanted: bool) -> None:
        self._mode.is_on = is_wanted

    def settle(self) -> None:
        """Put the mode on or off, on the run's thread. Costs next to nothing when there is nothing to do."""
        if not self._mode.is_on and not self.is_put:
            return
        visits = self._visits()
        if self._mode.is_inside or visits.is_paused or get_ident() != visits.thread:
            return
        in_backward = current_backward() != -1
        was_there = self._put()
        # This pass began without the mode, so every operation still to come has to put it on.
        if self._mode.is_on and in_backward and not was_there and not self._hooks:
            self._follow_rest()
        # torch undoes changes to the modes at the end of a backward pass. So assume that the mode is on until
        # a `settle` after the pass has looked.
        self.is_put = self._mode.is_on or in_backward

    def end_batch(self) -> None:
        """Remove the hooks on the graph; also called at the end of a backward pass."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _put(self, *_: Any) -> bool:
        """Move the mode to the bottom, or take it off. Return whether it was on."""
        modes = popped()
        rest = [mode for mode in modes if mode is not self._mode]
        pushed([*rest, self._mode] if self._mode.is_on else rest)
        return len(rest) < len(modes)

    def _follow_rest(self) -> None:
        """Register hooks on the operations that are still to come in this backward pass."""
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
        # Skip the frames of the mode itself.
        where = running(sys._getframe(2), self._layers, self._spans)
        if where is None:
            return
        phase, layer = where
        name, class_name = (None, None) if layer is None else (layer.name, layer.class_name)
        visits.visit(Place(phase, name, class_name, BEFORE, str(operation)))
