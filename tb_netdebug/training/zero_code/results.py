"""The results of all recorded runs, also of those in processes that the program has started.

Such a process leaves notes for the first one, which alone reports at the end: one when a run begins, and
another with the findings when the process ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # nothing heavy before the program itself imports it
    from tb_netdebug.checks.finding import Finding
    from tb_netdebug.training.zero_code.training import Training

UNKNOWN = "unknown"


@dataclass(slots=True)
class Result:
    """The result of one run. `is_over` is False until its process has said so; it may have been killed."""

    run_dir: Path
    steps: int
    findings: list[Finding] = field(default_factory=list)
    delivery: str = ""
    name_there: str = ""
    passed_over: int = 0
    is_over: bool = True
    pid: int = 0

    @property
    def verdict(self) -> str:
        """The verdict; unknown without a recorded step, or if the process has not said how it ended."""
        from tb_netdebug.checks.finding import verdict

        return verdict(self.findings) if self.steps and self.is_over else UNKNOWN


def result_of(training: Training) -> Result:
    link = sys.modules.get("tb_netdebug.transport.link")
    delivery = "" if link is None else link.delivery_of(training.run_dir)
    there = "" if link is None else link.name_there(training.run_dir)
    return Result(training.run_dir, training.steps, training.findings, delivery, there)


class Notes:
    """Notes of the processes of one `netdebug run`, in a folder that only this user can read."""

    def __init__(self, root: str) -> None:
        self._name = f"children-{root.replace(os.sep, '_')}"

    def write(self, results: Iterable[Result], *, passed_over: int, is_over: bool) -> bool:
        """Write this process's note; return whether there is a process to read it."""
        from tb_netdebug.transport.private_folder import made_private

        told = [
            {
                "run_dir": str(each.run_dir),
                "steps": each.steps,
                "delivery": each.delivery,
                "name_there": each.name_there,
                "findings": [finding.as_dict() for finding in each.findings],
            }
            for each in results
        ]
        note = json.dumps({"pid": os.getpid(), "is_over": is_over, "passed_over": passed_over, "runs": told})
        try:
            folder = made_private(self._folder())
            fresh = folder / f".{os.getpid()}"
            fresh.write_text(note, encoding="utf-8")
            # Replaced as a whole: the first process never reads half a note.
            fresh.replace(folder / f"{os.getpid()}.json")
        except OSError:
            return False
        return True

    def take(self) -> list[Result]:
        """Return the results in all notes, sorted by the names of their runs, and delete the notes."""
        found: list[Result] = []
        try:
            folder = self._folder()
            paths = sorted(folder.glob("*.json"))
        except OSError:
            return []
        for path in paths:
            with suppress(OSError, ValueError, KeyError, TypeError):
                found += map(_counted, _results_in(json.loads(path.read_text(encoding="utf-8"))))
            with suppress(OSError):
                path.unlink()
        with suppress(OSError):
            folder.rmdir()
        return sorted(found, key=lambda each: natural(each.run_dir.name))

    def _folder(self) -> Path:
        from tb_netdebug.transport.private_folder import spool_folder

        return spool_folder() / self._name


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts process10 behind process9."""
    parts = "".join(each if each.isdigit() else f" {each} " for each in name).split()
    return [(0, int(each), "") if each.isdecimal() else (1, 0, each) for each in parts]


def _results_in(note: dict[str, Any]) -> list[Result]:
    return [
        Result(
            run_dir=Path(each["run_dir"]),
            steps=int(each["steps"]),
            findings=[_finding(told) for told in each["findings"]],
            delivery=str(each["delivery"]),
            name_there=str(each["name_there"]),
            passed_over=int(note["passed_over"]) if number == 0 else 0,
            is_over=bool(note["is_over"]),
            pid=int(note["pid"]),
        )
        for number, each in enumerate(note["runs"])
    ]


def _counted(result: Result) -> Result:
    """Count the steps in the files of a run whose process has reported only its beginning."""
    if not result.is_over:
        from tb_netdebug.recording.run_sessions import next_step

        with suppress(Exception):  # files that cannot be read are no reason to be silent
            result.steps = next_step(result.run_dir)
    return result


def _finding(told: dict[str, Any]) -> Finding:
    """Return a finding with what the closing words need; evidence is left out."""
    from tb_netdebug.checks.finding import Finding, Severity

    return Finding(
        rule=str(told["rule"]),
        severity=Severity[str(told["severity"]).upper()],
        first_step=int(told["first_step"]),
        last_step=int(told["last_step"]),
        where=[str(each) for each in told["where"]],
        message=str(told["message"]),
        advice=str(told["advice"]),
        evidence={},
        sureness=float(told["sureness"]),
        cause=told["cause"],
        consequences=[str(each) for each in told["consequences"]],
    )
