"""Whether the system has killed processes for want of memory, as the control group of a process counts it."""

from __future__ import annotations

import re
from pathlib import Path

_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_MOUNTED = Path("/sys/fs/cgroup")


class OomKills:
    """Counts from its making on."""

    def __init__(self, pid: int) -> None:
        self._file = counting_file(pid)
        self._before = self._count()

    @property
    def has_risen(self) -> bool:
        return self._count() > self._before

    def _count(self) -> int:
        if self._file is None:
            return 0
        try:
            found = _COUNT.search(self._file.read_bytes())
        except OSError:  # the group is gone with its last process
            return 0
        return int(found[1]) if found else 0


def counting_file(pid: int) -> Path | None:
    """Of the group that the process is in; that of the whole container when only that is to be seen."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    candidates = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if "memory" in controllers.split(","):
            folder, name = _MOUNTED / "memory", "memory.oom_control"
        elif not controllers:
            folder, name = _MOUNTED, "memory.events"
        else:
            continue
        candidates += [folder / group.lstrip("/") / name, folder / name]
    return next((path for path in candidates if path.is_file()), None)
