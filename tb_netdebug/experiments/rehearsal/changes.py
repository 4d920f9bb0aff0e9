"""One thing that a script would have changed outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that was written or deleted; `path` is where the script thinks it is."""

    path: str
    is_deleted: bool = False
