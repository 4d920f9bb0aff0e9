"""The record of one change that a script would have made to the file system."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that was written or deleted; `path` is its path as the script sees it."""

    path: str
    is_deleted: bool = False
