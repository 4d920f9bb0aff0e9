"""A few threads that compute for all requests.

Werkzeug has a thread for each request, and the C library gives every thread a memory pool of its own, which
never shrinks. With views computed on many threads the process would hold many times the memory it needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """A pool of threads, started by the first work; work is done in order. Safe from any thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._orders: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def run(self, action: Callable[[], Result]) -> Result:
        """Run the action on a worker; return its result or raise its exception."""
        future: Future[Result] = Future()
        self._start()
        self._orders.put((future, action))
        return future.result()

    def close(self) -> None:
        """Stop the threads once the waiting work is done; does not wait for that."""
        with self._lock:
            for _ in self._threads:
                self._orders.put(None)
            self._threads.clear()

    def _start(self) -> None:
        with self._lock:
            while len(self._threads) < self._count:
                # A daemon: a thread that waits for a disk that is gone must not keep TensorBoard from
                # exiting.
                thread = threading.Thread(target=self._work, name="netdebug-worker", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            future, action = order
            try:
                future.set_result(action())
            except BaseException as error:  # the caller gets it, whatever it is
                future.set_exception(error)
            del order, future, action  # release the result now, not with the next work
