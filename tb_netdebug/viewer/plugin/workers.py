"""A few threads that compute for all requests.

Each request has a thread of its own, and the C library gives threads memory from separate pools that never go
back to the system: with pictures computed on many of them, the process would hold what it needs many times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """Start with the first work, which is done in the order in which it comes. Safe from any thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._orders: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def run(self, action: Callable[[], Result]) -> Result:
        """The result of the action, or its exception."""
        future: Future[Result] = Future()
        self._start()
        self._orders.put((future, action))
        return future.result()

    def close(self) -> None:
        """Ends the threads once the work that waits is done; does not wait for it."""
        with self._lock:
            for _ in self._threads:
                self._orders.put(None)
            self._threads.clear()

    def _start(self) -> None:
        with self._lock:
            while len(self._threads) < self._count:
                # A daemon: one that waits for a disk that is gone must not keep TensorBoard from ending.
                thread = threading.Thread(target=self._work, name="netdebug-worker", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            future, action = order
            try:
                future.set_result(action())
            except BaseException as error:  # whatever it is, it belongs to who asked
                future.set_exception(error)
            del order, future, action  # what was computed is not kept until the next work comes
