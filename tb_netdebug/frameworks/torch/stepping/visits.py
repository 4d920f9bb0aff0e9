"""Reports to the session where the run is, from the run's own threads only."""

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
    """The way from the stops to the session; `settle` is called after each visit, with the modes back on."""

    def __init__(self, stops: Stops, guard: Guard, settle: Callable[[], None]) -> None:
        self._stops = stops
        self._settle = settle
        self._visiting: set[int] = set()  # ids of threads that are within a visit
        self.guard = guard
        self.thread = get_ident()

    @property
    def are_wanted(self) -> bool:
        return self._stops.is_alert and not self.guard.is_off and not is_traced() and self._is_here()

    def visit(self, place: Place) -> None:
        """Report a place. The session's own faults end here; what it raises on purpose reaches the run."""
        ident = get_ident()
        if ident in self._visiting:
            return  # the session itself does something there, such as calling a layer
        self._visiting.add(ident)
        # The user's modes must not see what the session does while the run is paused.
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
    """Return whether Python started the thread. autograd's threads work for whoever waits for their pass."""
    return any(
        each.ident == ident and not isinstance(each, threading._DummyThread) for each in threading.enumerate()
    )
