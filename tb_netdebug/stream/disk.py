"""Work on the disk, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Disk:
    """`quick` is for what ends in the system's memory, in order and one after the other; `slow` is for what
    waits for the disk itself, several at once. Neither waits for the other."""

    def __init__(self, threads: int) -> None:
        self._quick = ThreadPoolExecutor(1, "netdebug-append")
        self._slow = ThreadPoolExecutor(threads, "netdebug-disk")

    async def quick(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._quick.submit(action, *args, **kwargs))

    async def slow(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._slow.submit(action, *args, **kwargs))

    def close(self) -> None:
        """Waits for what was begun."""
        self._quick.shutdown()
        self._slow.shutdown()
