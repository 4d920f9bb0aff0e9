"""The folder in which this program was started: printed paths hold there, wherever it has gone since."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def current() -> Path | None:
    """None when it has been taken away."""
    with suppress(OSError):
        return Path.cwd()
    return None


# As long as the package is imported before the program changes to another folder.
START_FOLDER = current()


def as_typed(path: Path) -> str:
    """Return an absolute path as one would type it in the shell that has started the program."""
    if START_FOLDER is not None and path.is_relative_to(START_FOLDER):
        return str(path.relative_to(START_FOLDER))
    return str(path)
