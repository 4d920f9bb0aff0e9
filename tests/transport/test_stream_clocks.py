"""The clock of a training's machine is set, and is not the collector's: order and endings do not go by it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.set_clock import SetClock
from tests.support.streamed import Home, StreamedTrainer, contents, steps, wait_for
from tests.support.tensorboard_process import TensorBoard

DAY_SECS = 86_400.0


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as made:
        yield made


@pytest.fixture
def board(home: Home, logdir: Path) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(logdir), "--netdebug_listen", ":0", env=home.env) as started:
        yield started


def row(board: TensorBoard) -> dict[str, Any]:
    """What TensorBoard lists; nothing before it has seen the run."""
    return next(iter(board.json("runs")["runs"]), {"steps": None, "state": None})


@pytest.mark.parametrize("ahead_secs", [-DAY_SECS, DAY_SECS])
def test_a_clock_that_is_set_while_a_training_runs(
    home: Home, board: TensorBoard, logdir: Path, tmp_path: Path, ahead_secs: float
) -> None:
    """By a day, twice: every step arrives once and in order, it counts as live, and how it ended is known."""
    clock = SetClock(tmp_path / "clock")
    address = board.wait_for_log(r"takes the records of trainings at (\S+)")[1]
    with StreamedTrainer(home, address, tmp_path / "here/run", env=clock.env) as trainer:
        trainer.put(10)
        trainer.wait_until_joined()
        for count, ahead in enumerate((ahead_secs, 0.0, ahead_secs), start=1):
            clock.set(ahead)
            trainer.put(10)
            wanted = {"steps": 10 + 10 * count, "state": "live", "late": None}
            wait_for(lambda wanted=wanted: wanted.items() <= row(board).items())
        trainer.kill(signal.SIGKILL)
        wait_for(lambda: not home.notes())
        wait_for(lambda: row(board)["state"] == "ended")
    ending = row(board)["ending"]
    assert (False, signal.SIGKILL) == (ending["well"], ending["signal"])
    assert list(range(40)) == steps(logdir / "run")
    assert contents(tmp_path / "here/run") == contents(logdir / "run")
