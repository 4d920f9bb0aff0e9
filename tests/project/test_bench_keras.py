"""The benchmark of Keras: several trainings that take turns, and TensorFlow hidden from everything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import tensorboard_process
from tests.support.bench_folder import load_bench

load_bench()

from bench import keras_fit  # noqa: E402
from bench.keras_fit import AUTO, BARE, EVERYTHING, KINDS, Contender, TraineeError  # noqa: E402
from bench.progress import Progress, Session  # noqa: E402

FEW = (BARE, AUTO, EVERYTHING)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """As short as it gets."""
    return Session(tmp_path, Progress(is_terminal=False), is_quick=True, rounds=2)


def test_trainings_take_turns_and_all_is_recorded(session: Session) -> None:
    """Two rounds of a few steps: a row for each contender, every step in the file, nothing traced late."""
    kind = KINDS[0]
    with keras_fit.runners(kind, session.folder, epochs=3, steps=6, contenders=FEW) as running:
        keras_fit.run_rounds(running, kind, session, 2)
        ratios = keras_fit.ratios_of(running)
        table = keras_fit.table_of(kind, running, ratios)
        promises = keras_fit.promises_of(kind, running, ratios)
    assert [contender.title for contender in FEW] == [row.title for row in table.rows]
    assert "0.67 M parameters" in table.title
    assert [12.0] * 3 == [row.values[4] for row in table.rows]
    assert [0.0] * 3 == [row.values[-1] for row in table.rows]
    assert 100.0 == table.rows[2].values[5]
    assert ["%", "%", "traces"] == [promise.unit for promise in promises]


def test_a_training_that_fails_is_told_with_its_last_words(session: Session) -> None:
    """Rather than waited for."""
    unknown = Contender("unknown", "nobody")
    wrong = keras_fit.Kind("no network", "none", "", 1)
    with (
        keras_fit.runners(wrong, session.folder, epochs=1, steps=1, contenders=[unknown]) as running,
        pytest.raises(TraineeError, match="KeyError: 'no network'"),
    ):
        running[0].run()


def test_tensorflow_is_hidden_from_tensorboard() -> None:
    """It reads and writes by its own stand-in then, as where TensorFlow is not installed."""
    code = f"{tensorboard_process.WITHOUT_TENSORFLOW}from tensorboard.compat import tf; print(tf.__version__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "stub" == found.stdout.strip()
