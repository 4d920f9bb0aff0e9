"""Work on the disk, off the event loop."""

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

# How long the end waits for what was begun: a network disk may hang for ever.
CLOSE_SECS = 5.0


class Disk:
    """`quick` is for what ends in the system's memory, in order and one after the other; `slow` is for what
    waits for the disk itself, several at once. Neither waits for the other."""

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
    """Threads of our own: those of `concurrent.futures` are gone when a program ends, before the collector
    that it leaves running has synced the last bytes, and with a stuck disk they would keep it from ending."""

    def __init__(self, name: str, threads: int) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, action: Callable[[], T]) -> asyncio.Future[T]:
        """What is cancelled before its turn is never begun."""
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
            except BaseException as error:  # whoever waits for it gets to see it
                settle = partial(_settle, future, future.set_exception, error)
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(settle)


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not future.done():
        settle(outcome)
