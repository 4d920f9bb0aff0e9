"""Whether a long training grows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table

TITLE = "Memory"
METHOD = (
    "A network of 25 small layers, each with its activation function, trains in a process of its own with "
    "`every=1`: 200 tensors a step (50 weights, gradients and updates each, and 50 activations), each "
    "with statistics and histogram. Headline: the highest resident memory of the process after step 1000, "
    "less that at step 1000."
)
MOST_GROWTH_MB = 50.0
WARM_STEPS = 1000
TRAINEE = Path(__file__).with_name("trainee.py")


class TraineeError(RuntimeError):
    """The training ended before its time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the trainee tells every thousand steps."""

    step: int
    resident: int
    secs: float
    log_bytes: int


def measure(session: Session) -> Part:
    began = time.monotonic()
    steps = 5_000 if session.is_quick else 100_000
    readings = []
    for reading in train(session.folder / "memory", steps, every_steps=WARM_STEPS):
        speed = reading.step / reading.secs
        session.progress.show(f"{TITLE}: step {reading.step} of {steps}, {speed:.0f} a second")
        readings.append(reading)
    warm, *later = readings
    growth = (max(reading.resident for reading in later) - warm.resident) / 1e6
    text = f"{steps} steps of 200 tensors, every step sampled: resident memory grows by"
    promise = Promise(text, growth, MOST_GROWTH_MB, "MB", True)
    return Part("memory", TITLE, METHOD, 1, time.monotonic() - began, [promise], [table_of(readings)])


def train(logdir: Path, steps: int, *, every_steps: int) -> Iterator[Reading]:
    """Runs the trainee; leaving the iteration early ends it. Raises TraineeError when it fails."""
    command = [sys.executable, str(TRAINEE), str(logdir), str(steps), str(every_steps)]
    # A session of its own: Ctrl-C is for us, and we end the trainee.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as trainee:
        try:
            assert trainee.stdout is not None
            for line in trainee.stdout:
                yield Reading(**json.loads(line))
        except BaseException:
            trainee.kill()
            raise
    if trainee.returncode:
        raise TraineeError(f"the training ended with exit code {trainee.returncode}")


def table_of(readings: list[Reading]) -> Table:
    shown = [readings[0], *(readings[len(readings) * tenth // 10 - 1] for tenth in range(1, 11))]
    unique = {reading.step: reading for reading in shown}
    rows = [
        Row(
            f"step {reading.step}",
            [reading.resident / 1e6, reading.log_bytes / 1e6, reading.step / reading.secs],
            is_ours=True,
        )
        for _, reading in sorted(unique.items())
    ]
    columns = [
        Column("resident, MB", 1, "less"),
        Column("event file, MB", 1, "less"),
        Column("steps a second so far", 0, "more"),
    ]
    return Table("The trainer over time", columns, rows)
