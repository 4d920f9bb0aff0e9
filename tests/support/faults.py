"""Disks that fail on demand, for programs run in a process of their own."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

SHIM = Path(__file__).with_name("faulty_disk.c")


class FaultyDisk:
    """A C library put before the system's: it fails the writes of event files as `order` says."""

    def __init__(self, folder: Path, *, marker: str = ".netdebug") -> None:
        self._library = folder / "faulty_disk.so"
        self._control = folder / "order"
        self._marker = marker
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(self._library), str(SHIM), "-ldl"],
            check=True,
        )
        self.order("ok")

    @property
    def env(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "NETDEBUG_FAULT_MARKER": self._marker,
            "NETDEBUG_FAULT_CONTROL": str(self._control),
        }

    @property
    def refusals(self) -> int:
        """How many calls were refused or held up so far."""
        calls = self._control.with_suffix(".calls")
        return calls.stat().st_size if calls.exists() else 0

    def order(self, words: str) -> None:
        fresh = self._control.with_name("order.new")
        fresh.write_text(words)
        fresh.replace(self._control)  # at once, so that no half of an order is read

    def fail(self, code: int = errno.ENOSPC, *, after_bytes: int = 0) -> None:
        """Refuse every write after so many bytes more."""
        self.order(f"torn {code} {after_bytes}")
