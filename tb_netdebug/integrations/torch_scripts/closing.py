"""Closes trainings whose optimizers are gone, soon after they went: until then models are kept for us."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

CLOSE_SECS = 5.0


class Closing:
    """A thread that calls `sweep` whenever `rouse` was called, from the first `begin` to `close`.

    The next model or optimizer that is made sweeps, too; but after the last one there is none.
    """

    def __init__(self, sweep: Callable[[], None]) -> None:
        self._sweep = sweep
        # An Event would not do: garbage is collected at any moment, perhaps while this thread sets it.
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_idle = True

    def begin(self) -> None:
        """Harmless when called again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="netdebug-closing", daemon=True)
            self._thread.start()

    def rouse(self) -> None:
        """From anywhere, also from the end of an object."""
        self._wake.put(True)

    def close(self) -> None:
        """Harmless when called again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.put(False)
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECS)

    def _run(self) -> None:
        while self._wake.get():
            self.is_idle = False
            try:
                self._sweep()
            finally:
                self.is_idle = True
