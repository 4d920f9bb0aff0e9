"""How often the optimizers of Keras move the weights, and what is said when they move them by nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

from tests.support.keras_runs import Run, dense, fit

L = keras.layers


class FromZero(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc, name-defined]
    """A warm-up that begins at 0, and moves on with each update."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __call__(self, step: Any) -> Any:
        return 0.01 * keras.ops.cast(step // self.batches, "float32")


def run(logdir: Path, optimizer: Any) -> Run:
    keras.utils.set_random_seed(1)
    return Run(logdir, dense(L.Dense(8, activation="relu"), L.Dense(3), optimizer=optimizer), fit)


def accumulating(rate: Any = 0.01) -> Any:
    return keras.optimizers.Adam(rate, gradient_accumulation_steps=4)


@pytest.mark.parametrize(
    "optimizer", [accumulating, lambda: keras.optimizers.LossScaleOptimizer(accumulating())]
)
def test_updates_are_counted_and_sampled_where_weights_move(optimizer: Any, tmp_path: Path) -> None:
    """Of four batches whose gradients are added up, the last moves them."""
    watched = run(tmp_path, optimizer())
    assert [0, 0, 0, 1, 1, 1, 1, 2] == list(watched.scalar("probe/updates_made").values())[:8]
    steps = {step for series in watched.recorded.tensors for step in watched.recorded.tensors[series]}
    updates = {
        step
        for series, samples in watched.recorded.tensors.items()
        if series.kind.name == "UPDATE"
        for step in samples
    }
    assert {3, 7} <= updates
    assert {step for step in updates if step % 4 == 3} == updates < steps


@pytest.mark.parametrize("rate", [0.0, FromZero(1000)])
def test_a_rate_of_zero_is_told(rate: Any, tmp_path: Path) -> None:
    """A number, or a schedule that is counted in another unit."""
    assert "learning-rate-zero" in run(tmp_path, keras.optimizers.Adam(rate)).slugs


def test_batches_that_are_added_up_at_the_start_of_a_warm_up_are_no_steps(tmp_path: Path) -> None:
    """The rate is 0 in four of them, and the weights are moved by nothing once."""
    watched = run(tmp_path, accumulating(FromZero(4)))
    assert [0, 0, 0, 0] == list(watched.scalar("lr/0").values())[:4]
    assert "learning-rate-zero" not in watched.slugs
