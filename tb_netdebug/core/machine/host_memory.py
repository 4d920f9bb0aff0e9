"""Memory of this process, of its children and of the host, in bytes, for the memory sampler."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

Readings = dict[str, float]


class HostMemory:
    """A reader of the operating system's figures; children that end while they are read are left out."""

    def __init__(self) -> None:
        self.child_pids: list[int] = []  # as of the last call of `children`

    def process(self) -> Readings:
        """Return the RSS of this process and what the host has left."""
        return {
            "memory/rss": float(psutil.Process().memory_info().rss),
            "memory/host_available": float(psutil.virtual_memory().available),
        }

    def children(self) -> Readings:
        """Return the RSS summed over all descendants; a shared page counts once for each of them."""
        pid = os.getpid()
        # Linux lists the children of each thread, unless the kernel was built without it.
        listed = Path(f"/proc/{pid}/task/{pid}/children").exists()
        pids = listed_descendants(pid) if listed else searched_descendants(pid)
        sizes = {child: rss for child in pids if (rss := resident_bytes(child))}
        self.child_pids = list(sizes)
        return {"memory/children_rss": float(sum(sizes.values())), "memory/children_count": float(len(sizes))}

    def details(self) -> Readings:
        """Return USS (private pages) and, on Linux, PSS (each shared page divided among its processes).

        Slow: the kernel walks all pages of the processes.
        """
        readings = {f"memory/{name}": size for name, size in shares(psutil.Process()).items()}
        child_sizes = [size for pid in self.child_pids if (size := proportional_bytes(pid))]
        if child_sizes:
            readings["memory/children_pss"] = sum(child_sizes)
        return readings


def listed_descendants(pid: int) -> list[int]:
    """Return all descendants from the kernel's lists, for a hundredth of the cost of asking every process."""
    found: list[int] = []
    unvisited = [pid]
    while unvisited:
        children = listed_children(unvisited.pop())
        found += children
        unvisited += children
    return found


def listed_children(pid: int) -> list[int]:
    """Return the children of all threads of `pid`; none if it has just ended."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
    return [child for thread in threads for child in listed_by_thread(thread)]


def listed_by_thread(thread: Path) -> list[int]:
    try:
        return list(map(int, (thread / "children").read_bytes().split()))
    except OSError:
        return []


def searched_descendants(pid: int) -> list[int]:
    """Return all descendants, found by asking every process on the machine for its parent."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def resident_bytes(pid: int) -> int:
    """Return the RSS of a process, or 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def proportional_bytes(pid: int) -> float:
    """Return the PSS of a process, or 0 if it has ended, belongs to another user or the system has no PSS."""
    try:
        return shares(psutil.Process(pid)).get("pss", 0.0)
    except psutil.Error:
        return 0.0


def shares(process: psutil.Process) -> Readings:
    full = process.memory_full_info()._asdict()
    return {name: float(full[name]) for name in ("pss", "uss") if name in full}
