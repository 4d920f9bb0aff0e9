"""Recordings of whole trainings for those who work on the page: made once, by programs of the demo."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from board import BoardError
from children import Child

HERE = Path(__file__).resolve().parent
# Each run and what trains it: healthy and sick, of two ranks, and one that NetDebug did not record.
PROGRAMS = {
    "healthy": "healthy/digits.py",
    "deep-sigmoid": "sick/vanishing_gradients.py",
    "loss-not-a-number": "sick/nonfinite_loss.py",
    "two-processes": "sick/straggler_rank.py",
    "summary-writer": "healthy/summary_writer.py",
}
# They train until they are told to end.
ENDLESS = ("healthy", "deep-sigmoid")
START_SECS = 10.0
LOOK_SECS = 0.1


def recorded(folder: Path, *, seconds: float, children: list[Child]) -> Path:
    """Return the logdir with the recordings, and make them if they are absent; raise BoardError, OSError."""
    logdir = folder / "runs"
    if not logdir.exists():
        making = folder / "making"
        shutil.rmtree(making, ignore_errors=True)  # of somebody who lost patience
        making.mkdir(parents=True)
        print(
            f"          recording {len(PROGRAMS)} trainings, for about {seconds + START_SECS:.0f} s",
            flush=True,
        )
        _train(making, seconds, children)
        _collect(making).rename(logdir)
        shutil.rmtree(making)
    return logdir


def _train(making: Path, seconds: float, children: list[Child]) -> None:
    """Run all programs side by side, each in a folder of its own."""
    started: list[Child] = []
    for name, script in PROGRAMS.items():
        words: list[str | Path] = [HERE / script, *(["--seconds", str(seconds)] if name in ENDLESS else [])]
        started.append(Child.start(name, words, output=making / name / "output.txt"))
        children.append(started[-1])
    while any(child.is_running for child in started):
        time.sleep(LOOK_SECS)
    for child in started:
        if child.has_failed:
            raise BoardError(child.ending())


def _collect(making: Path) -> Path:
    """Return a folder with all runs, each under the name of its program: some are named after their time."""
    collected = making / "runs"
    collected.mkdir()
    for name in PROGRAMS:
        [run] = (making / name / "runs").iterdir()
        run.rename(collected / name)
    return collected
