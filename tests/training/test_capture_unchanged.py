"""Watching changes nothing: losses, weights, gradients and random numbers are the same bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.loops import MODELS, Recorded, Trained, assert_equal, trained

OPTIONS: dict[str, dict[str, Any]] = {
    "every step": {"every": 1},
    "auto": {"every": "auto"},
    "every third step": {"every": 3},
    "one layer": {"every": 1, "include": "0"},
    "all but one layer": {"every": 1, "exclude": "0|head"},
    "nothing": {
        **dict.fromkeys(("weights", "gradients", "updates", "activations", "memory", "batches"), False),
        "capsules": False,
        "flight_recorder": 0,
    },
}


@cache
def unwatched(kind: str) -> Trained:
    return trained(kind, None)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("kind", MODELS)
def test_training_is_the_same_bit_for_bit(kind: str, options: dict[str, Any], logdir: Path) -> None:
    """Whatever is asked for, a watched training computes what the same training computes unwatched."""
    assert_equal(unwatched(kind), trained(kind, logdir, **options))
    assert list(range(6)) == Recorded(logdir / "run").steps


@pytest.fixture
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("kind", MODELS)
def test_deterministic_algorithms_stay_so(kind: str, logdir: Path) -> None:
    """Under torch.use_deterministic_algorithms nothing of ours is refused, and nothing changes."""
    assert_equal(trained(kind, None), trained(kind, logdir, every=1))


@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop]
)
def test_every_optimizer_moves_the_same_way(optimizer: Any, logdir: Path) -> None:
    """Looking at an optimizer's gradients and updates leaves its steps as they are."""
    assert_equal(
        trained("mlp", None, optimizer=optimizer), trained("mlp", logdir, optimizer=optimizer, every=1)
    )
