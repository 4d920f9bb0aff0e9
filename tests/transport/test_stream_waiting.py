"""A wait that is cancelled ends, whatever else happens in that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tb_netdebug.transport.waiting import wait_at_most


def run(waiting: Coroutine[Any, Any, object]) -> object:
    """In a thread: the browser of other tests has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, waiting).result()


@pytest.mark.parametrize("turns", range(6))
def test_it_is_cancelled_when_the_event_comes(turns: int) -> None:
    """So many turns of the loop lie between the two."""

    async def cancelled() -> bool:
        event = asyncio.Event()
        waiting = asyncio.ensure_future(wait_at_most(event, 3600.0))
        for _ in range(3):
            await asyncio.sleep(0)
        event.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        is_late = not waiting.cancel()
        await asyncio.wait([waiting])
        return is_late or waiting.cancelled()

    assert run(cancelled())


def test_it_ends_without_the_event() -> None:
    run(wait_at_most(asyncio.Event(), 0.01))
