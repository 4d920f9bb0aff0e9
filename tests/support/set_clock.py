"""A clock that is set while programs run: for those that are started with `env`, and what they start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.spoken_to import ROOT

# Python imports it at its start.
CUSTOM = """
import pathlib, time
offset, system = pathlib.Path({path!r}), time.time
time.time = lambda: system() + float(offset.read_text())
"""


class SetClock:
    """Right until it is `set`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offset = folder / "offset"
        folder.mkdir()
        self.set(0.0)
        (folder / "sitecustomize.py").write_text(CUSTOM.format(path=str(self._offset)))

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join([str(self._folder), *filter(None, sys.path), str(ROOT)])}

    def set(self, ahead_secs: float) -> None:
        """So far before the system's, from now on."""
        fresh = self._offset.with_name("offset.new")
        fresh.write_text(str(ahead_secs))
        fresh.replace(self._offset)
