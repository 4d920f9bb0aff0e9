"""Where trainings of a benchmark meet their agents, apart from those of whoever runs it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# An agent that is left alone with a collector that is gone goes, too.
PATIENCE_SECS = 5


@contextmanager
def meeting_place() -> Iterator[Path]:
    """A folder with a short name, because that of a socket has to be; in the environment until the end."""
    with tempfile.TemporaryDirectory(prefix="nd") as folder:
        place = Path(folder)
        wanted = {
            "XDG_RUNTIME_DIR": str(place / "runtime"),
            "TMPDIR": folder,
            "NETDEBUG_PATIENCE_SECS": str(PATIENCE_SECS),
            "NETDEBUG_REMOTE": "",
        }
        (place / "runtime").mkdir(mode=0o700)
        before = {name: os.environ.get(name) for name in wanted}
        temporary = tempfile.tempdir
        os.environ.update(wanted)
        tempfile.tempdir = folder
        try:
            yield place
        finally:
            tempfile.tempdir = temporary
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
