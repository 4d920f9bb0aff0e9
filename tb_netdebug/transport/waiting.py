"""Waits on the loop that can always be cancelled."""

from __future__ import annotations

import asyncio


async def wait_at_most(event: asyncio.Event, secs: float) -> None:
    """Return when the event is set, or after so many seconds.

    Before Python 3.12 asyncio.wait_for forgets that it was cancelled when the event comes in that moment. A
    task that does so again and again then never ends, and neither does whoever waits for its end.
    """
    alarm = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([alarm], timeout=secs)
    finally:
        alarm.cancel()
