"""Memory that this process can still allocate: what the host has free, and what its control groups leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

SYSTEM = Path("/")
# File of the limit, file of the usage, and the field of reclaimable bytes in the usage; cgroup v2 and v1.
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


# Copies of the weights (for updates) may take this share of the memory that is free when watching begins, …
COPIES_SHARE = 0.1
# … or so many bytes where that is unknown.
COPIES_BYTES = 256 << 20


def free_bytes() -> int:
    """Return the number of bytes still free, or 0 where the system does not report it, as without /proc."""
    return known_free_bytes() or 0


def known_free_bytes() -> int | None:
    """Return the number of bytes still free, or None where the system does not report it."""
    try:
        free = int(psutil.virtual_memory().available)
    except (OSError, psutil.Error):
        return None
    return min([free, *left_in_groups(SYSTEM)])


def copies_limit() -> int:
    """Return how many bytes the copies of weights may take."""
    free = known_free_bytes()
    return COPIES_BYTES if free is None else int(free * COPIES_SHARE)


def own_bytes() -> int:
    """Return the resident size of this process, or 0 where the system does not report it."""
    try:
        return int(psutil.Process().memory_info().rss)
    except (OSError, psutil.Error):
        return 0


def left_in_groups(system: Path) -> list[int]:
    """Return the bytes left in each control group with a limit: that of this process and those above it."""
    with suppress(OSError):
        lines = (system / "proc/self/cgroup").read_text().splitlines()
        return [max(left, 0) for folder, files in groups(system, lines) for left in left_in(folder, files)]
    return []


def groups(system: Path, lines: list[str]) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield the folder and the files of each memory control group, from the innermost to the root.

    In a container the path may be the host's; then only the root exists.
    """
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            root, files = system / "sys/fs/cgroup", V2
        elif "memory" in controllers.split(","):
            root, files = system / "sys/fs/cgroup/memory", V1
        else:
            continue
        own = root / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                yield folder, files


def left_in(folder: Path, files: tuple[str, str, str]) -> Iterator[int]:
    """Yield the bytes left in one group, or nothing if it has no limit or cannot be read."""
    limit, used, reclaimable = files
    with suppress(OSError, ValueError):  # version 2 says "max" for no limit
        most, taken = (int((folder / name).read_text()) for name in (limit, used))
        yield most - taken + reclaimed(folder, reclaimable)


def reclaimed(folder: Path, name: str) -> int:
    """Return the bytes of the usage in inactive pages of files, which the kernel reclaims when needed."""
    with suppress(OSError, ValueError):
        lines = (folder / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines if line).get(name, 0))
    return 0
