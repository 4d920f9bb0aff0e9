"""Disk operations of the collector, run on threads so that they never block its event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]

# How long `close` waits for operations in progress: a network disk may hang for ever.
CLOSE_SECS = 5.0


class Disk:
    """Two queues of disk operations that never wait for each other.

    `quick` is for writes that end in the page cache: one thread, in order. `slow` is for operations that wait
    for the disk itself: several at once.
    """

    def __init__(self, threads: int) -> None:
        self._quick = _Lane("netdebug-append", 1)
        self._slow = _Lane("netdebug-disk", threads)

    async def quick(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._quick.submit(partial(action, *args, **kwargs))

    async def slow(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._slow.submit(partial(action, *args, **kwargs))

    def close(self) -> None:
        self._quick.close()
        self._slow.close()


class _Lane:
    """A queue with worker threads of our own, instead of those of `concurrent.futures`.

    The latter end with the interpreter, before a collector that is still running has synced its last bytes;
    and with a hung disk they would keep the program from ending.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, action: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a call and return its future; a call that is cancelled before its turn never begins."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, action))
        return future

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(CLOSE_SECS)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, action = job
            if future.cancelled():
                continue
            try:
                settle = partial(_settle, future, future.set_result, action())
            except BaseException as error:  # passed on to whoever awaits the future
                settle = partial(_settle, future, future.set_exception, error)
            with suppress(RuntimeError):  # the loop is closed, so nobody awaits the result
                loop.call_soon_threadsafe(settle)


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not future.done():
        settle(outcome)
