"""Waits on the event loop that can always be cancelled."""

from __future__ import annotations

import asyncio


async def wait_at_most(event: asyncio.Event, secs: float) -> None:
    """Return when the event is set, or after `secs` at the latest.

    Before Python 3.12, asyncio.wait_for loses its own cancellation when the event is set at that very moment.
    A task that waits in a loop then never ends, and neither does the one that awaits it.
    """
    alarm = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([alarm], timeout=secs)
    finally:
        alarm.cancel()
