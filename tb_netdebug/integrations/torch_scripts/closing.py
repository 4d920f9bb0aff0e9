"""A thread that closes runs soon after their optimizers are gone.

Until then their models are kept alive by us.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

CLOSE_SECS = 5.0


class Closing:
    """Calls `sweep` on a thread of its own after each `rouse`, from the first `begin` to `close`.

    The next model or optimizer that is made sweeps, too; after the last one nothing else would.
    """

    def __init__(self, sweep: Callable[[], None]) -> None:
        self._sweep = sweep
        # Not an Event: a finalizer may run at any moment, perhaps while this thread holds the lock of the
        # event. SimpleQueue.put is reentrant.
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_idle = True

    def begin(self) -> None:
        """Start the thread. May be called more than once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="netdebug-closing", daemon=True)
            self._thread.start()

    def rouse(self) -> None:
        """Wake the thread. May be called from anywhere, even from a finalizer."""
        self._wake.put(True)

    def close(self) -> None:
        """Stop the thread. May be called more than once."""
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
