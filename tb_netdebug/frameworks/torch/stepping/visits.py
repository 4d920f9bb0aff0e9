"""The way to the session: where the training is, told on the threads of this training alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident

import torch

from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.workbench import Stops
from tb_netdebug.frameworks.torch.interception import popped, pushed
from tb_netdebug.recording.guard import Guard

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing
current_backward = torch._C._current_graph_task_id


class Visits:
    """`settle` is called after each visit, when operations are told to modes again."""

    def __init__(self, stops: Stops, guard: Guard, settle: Callable[[], None]) -> None:
        self._stops = stops
        self._settle = settle
        self._visiting: set[int] = set()  # threads
        self.guard = guard
        self.thread = get_ident()

    @property
    def are_wanted(self) -> bool:
        return self._stops.is_alert and not self.guard.is_off and not is_traced() and self._is_here()

    def visit(self, place: Place) -> None:
        """A fault of the session's own ends here; what it raises on purpose goes on into the training."""
        ident = get_ident()
        if ident in self._visiting:
            return  # what the session does there, such as calling a layer
        self._visiting.add(ident)
        modes = popped()
        try:
            self._stops.visit(place)
        except FindingError:
            raise
        except Exception as error:
            self.guard.fault("stopping the training", error)
        finally:
            pushed(modes)
            self._visiting.discard(ident)
            self._settle()

    @property
    def is_paused(self) -> bool:
        """Whether this thread is within a visit."""
        return get_ident() in self._visiting

    def _is_here(self) -> bool:
        ident = get_ident()
        if ident in self._visiting:
            return False
        return ident == self.thread or (current_backward() != -1 and not is_python_thread(ident))


def is_python_thread(ident: int) -> bool:
    """Threads of autograd's are not: they serve the backward pass of whoever waits for them."""
    return any(
        each.ident == ident and not isinstance(each, threading._DummyThread) for each in threading.enumerate()
    )
