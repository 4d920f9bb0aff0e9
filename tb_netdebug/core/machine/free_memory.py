"""How much memory is free for this process: what the host has, and what its control groups leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

SYSTEM = Path("/")
# Limit, use, and what of the use the kernel gives back when asked, in the two versions of control groups.
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_bytes() -> int:
    """Return 0 where the system does not tell, as without /proc."""
    try:
        free = int(psutil.virtual_memory().available)
    except (OSError, psutil.Error):
        return 0
    return min([free, *left_in_groups(SYSTEM)])


def own_bytes() -> int:
    """Return what this process holds; 0 where the system does not tell."""
    try:
        return int(psutil.Process().memory_info().rss)
    except (OSError, psutil.Error):
        return 0


def left_in_groups(system: Path) -> list[int]:
    """Return what each control group with a limit leaves to this process, its own and those above it."""
    with suppress(OSError):
        lines = (system / "proc/self/cgroup").read_text().splitlines()
        return [max(left, 0) for folder, files in groups(system, lines) for left in left_in(folder, files)]
    return []


def groups(system: Path, lines: list[str]) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield their folders. In a container the path may be that of the host, and only the root is there."""
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
    """Yield what one leaves, unless it has no limit or does not tell."""
    limit, used, reclaimable = files
    with suppress(OSError, ValueError):  # version 2 says "max" for no limit
        most, taken = (int((folder / name).read_text()) for name in (limit, used))
        yield most - taken + reclaimed(folder, reclaimable)


def reclaimed(folder: Path, name: str) -> int:
    """Return how many bytes of the use are pages of files that nobody has used for long."""
    with suppress(OSError, ValueError):
        lines = (folder / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines if line).get(name, 0))
    return 0
