"""Callbacks at the beginning and the end of each backward pass, whoever starts it. Used by the probes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.signal_handlers import is_from_a_handler


class BackwardWatch:
    """Calls `before` and `after` around each backward pass until `close`, on the thread that runs it.

    A callback that fails does not disturb the run: the guard records the fault. Without a guard, the failure
    is reported as a warning and the watch ends.
    """

    def __init__(
        self,
        before: Callable[[Any], None] | None,
        after: Callable[[Any], None] | None,
        guard: Guard | None,
    ) -> None:
        self._tell_before = before
        self._tell_after = after
        self._guard = guard
        self._handle: Handle | None = listen(
            torch.autograd.backward,
            before=None if before is None else self._before,
            after=None if after is None else self._after,
        )

    def close(self) -> None:
        """Stop watching. Harmless when called again."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _before(self, args: tuple[Any, ...]) -> None:
        try:
            if self._tell_before is not None and not (self._guard and self._guard.is_off):
                self._tell_before(args[0])
        except Exception as error:
            self._fail(error)

    def _after(self, args: tuple[Any, ...], _: Any) -> None:
        try:
            if self._tell_after is not None and not (self._guard and self._guard.is_off):
                self._tell_after(args[0])
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._guard is not None:
            self._guard.fault("looking at a backward pass", error)
            return
        # A signal handler of the user's interrupted us and raised: let it through.
        if is_from_a_handler(error):
            raise error
        self.close()
        warnings.warn(f"NetDebug failed while looking at a backward pass: {error!r}", stacklevel=2)


class BackwardListeners:
    """Tells the probes of each backward pass, through one listener to torch for all of them.

    A probe that fails does not keep the others from being told.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._before: tuple[Callable[[Any], None], ...] = ()
        self._after: tuple[Callable[[Any], None], ...] = ()
        self._handle = listen(torch.autograd.backward, before=self._tell_before, after=self._tell_after)

    def listen(
        self, before: Callable[[Any], None] | None = None, after: Callable[[Any], None] | None = None
    ) -> None:
        """Call `before(tensors)` and `after(tensors)` around each backward pass, until `close`."""
        if before is not None:
            self._before = (*self._before, before)
        if after is not None:
            self._after = (*self._after, after)

    def close(self) -> None:
        self._handle.close()

    def _tell_before(self, args: tuple[Any, ...]) -> None:
        if not self._guard.is_off:
            for tell in self._before:
                try:
                    tell(args[0])
                except Exception as error:
                    self._guard.fault("looking at a backward pass", error)

    def _tell_after(self, args: tuple[Any, ...], _: Any) -> None:
        if not self._guard.is_off:
            for tell in self._after:
                try:
                    tell(args[0])
                except Exception as error:
                    self._guard.fault("looking at a backward pass", error)


def watch_backward(
    before: Callable[[Any], None] | None = None,
    after: Callable[[Any], None] | None = None,
    *,
    guard: Guard | None = None,
) -> BackwardWatch:
    """Call `before(tensors)` at the start of each backward pass and `after(tensors)` at its end.

    Covers torch.autograd.backward and Tensor.backward; `after` is left out when the pass raised. `tensors` is
    one tensor or a sequence. Close the returned watch.
    """
    return BackwardWatch(before, after, guard)
