"""The folder in which this program was started: printed paths are relative to it even after a chdir."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def current() -> Path | None:
    """Return the current folder, or None if it was deleted."""
    with suppress(OSError):
        return Path.cwd()
    return None


# True only if the package is imported before the program changes to another folder.
START_FOLDER = current()


def as_typed(path: Path) -> str:
    """Return an absolute path as the user would type it in the shell that started the program."""
    if START_FOLDER is not None and path.is_relative_to(START_FOLDER):
        return str(path.relative_to(START_FOLDER))
    return str(path)
