"""Tells in which parts two trainings differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.matrix.outcome import digest, of_files
from tests.matrix.processes import HUNG

# NetDebug says so when a part of it has failed; it is no fault of the training, and counted all the same.
FAILED = ("NetDebug failed while", "NetDebug: monitoring failed", "MonitorWarning")


@dataclass(frozen=True, slots=True)
class Left:
    """All that a program has left in its folder."""

    code: int | str
    parts: dict[str, Any]
    has_recorded: bool
    said_failed: str

    @classmethod
    def of(cls, folder: Path, code: int | str) -> Left:
        found = folder / "outcome.json"
        parts: dict[str, Any] = json.loads(found.read_text()) if found.exists() else {"outcome": "missing"}
        parts["files"] = of_files(folder / "work")
        parts["stdout"] = digest((folder / "stdout.txt").read_bytes())
        parts["exit code"] = code
        told = (folder / "stderr.txt").read_text(errors="replace").splitlines()
        failed = [line for line in told if any(word in line for word in FAILED)]
        logs = (folder / "logs").glob("run/events.*")
        return cls(code, parts, any(each.stat().st_size > 500 for each in logs), "".join(failed[:1]))


def differences(alone: Left, watched: Left, *, is_watched: bool = True) -> list[str]:
    """The names of the parts that differ; empty when every bit is the same."""
    if watched.code == HUNG:
        return [HUNG]
    names = [*alone.parts, *(name for name in watched.parts if name not in alone.parts)]
    missing = object()
    found = [name for name in names if alone.parts.get(name, missing) != watched.parts.get(name, missing)]
    if is_watched and not watched.has_recorded:
        found.append("nothing recorded")
    return found
