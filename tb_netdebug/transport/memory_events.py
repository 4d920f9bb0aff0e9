"""The out-of-memory kills that the control group of a process has counted."""

from __future__ import annotations

import re
from pathlib import Path

_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_MOUNTED = Path("/sys/fs/cgroup")


class OomKills:
    """A watch on the count of out-of-memory kills, from its creation on."""

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
        except OSError:  # the group went away with its last process
            return 0
        return int(found[1]) if found else 0


def counting_file(pid: int) -> Path | None:
    """Return the file that counts the kills of the process's control group; None where there is none.

    Inside a container only the container's own group may be visible: then it is that one.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    candidates = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if "memory" in controllers.split(","):  # cgroup v1
            folder, name = _MOUNTED / "memory", "memory.oom_control"
        elif not controllers:  # cgroup v2
            folder, name = _MOUNTED, "memory.events"
        else:
            continue
        candidates += [folder / group.lstrip("/") / name, folder / name]
    return next((path for path in candidates if path.is_file()), None)
