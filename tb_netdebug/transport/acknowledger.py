"""Syncs the files of a stream at most once a second, and acknowledges to the agent what is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tb_netdebug.transport.disk import Disk
from tb_netdebug.transport.limits import Limits
from tb_netdebug.transport.places import RefusedFile
from tb_netdebug.transport.received_files import LandedFile
from tb_netdebug.transport.waiting import wait_at_most

OnSynced = Callable[[int, int], Awaitable[None]]
OnRefused = Callable[[int, LandedFile, RefusedFile], Awaitable[None]]


class Acknowledger:
    """The syncing of one stream's files.

    `synced(number, size)` and `refused(number, file, why)` are awaited on the event loop, where everything
    else here runs, too; the disk threads do nothing but wait for the disk.
    """

    def __init__(self, disk: Disk, limits: Limits, synced: OnSynced, refused: OnRefused) -> None:
        self._disk = disk
        self._secs = limits.sync_secs
        # A fast stream would fill its window within the second and then stall, so it is synced earlier.
        self._hurry_bytes = limits.window_bytes // 4
        self._synced = synced
        self._refused = refused
        self._waiting: dict[int, LandedFile] = {}
        self._bytes = 0
        self._last = float("-inf")
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def note(self, number: int, file: LandedFile, size: int) -> None:
        """Note that `size` bytes arrived for the file, repeated ones included."""
        self._waiting[number] = file
        self._bytes += size
        self._some.set()
        if self._bytes >= self._hurry_bytes:
            self._many.set()

    def forget(self, number: int) -> None:
        self._waiting.pop(number, None)

    async def run(self) -> None:
        """Sync and acknowledge until cancelled."""
        while True:
            await self._some.wait()
            rest = self._last + self._secs - asyncio.get_running_loop().time()
            if rest > 0:
                await wait_at_most(self._many, rest)
            await self.settle()

    async def settle(self) -> None:
        """Sync and acknowledge everything now, after whatever is being synced already."""
        async with self._one_at_a_time:
            # Emptied before the first await: what arrives during these syncs belongs to the next round.
            waiting, self._waiting, self._bytes = self._waiting, {}, 0
            self._some.clear()
            self._many.clear()
            self._last = asyncio.get_running_loop().time()
            await asyncio.gather(*(self._sync(number, file) for number, file in waiting.items()))

    async def _sync(self, number: int, file: LandedFile) -> None:
        try:
            size = await self._disk.slow(file.sync)
        except RefusedFile as why:
            await self._refused(number, file, why)
        else:
            await self._synced(number, size)
