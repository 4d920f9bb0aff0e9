"""Whether a program sets the seed in each of its steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tb_netdebug.frameworks.torch.batches.randomness import RandomNumbers
from tests.support.loops import vectors
from tests.support.probed import learn, probed, sgd


def set_back(logdir: Path, before: Callable[[int], object], *, dropout: float = 0.5) -> dict[int, float]:
    """Of a network with dropout, on the same batch in each step; `before` is called at each beginning."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(dropout), nn.Linear(8, 3))
    optimizer = sgd(model)
    inputs, labels = vectors()

    def body(step: int) -> torch.Tensor:
        before(step)
        return learn(model, optimizer, inputs, labels)

    return probed(logdir, model, optimizer, body).scalar("probe/random_set_back")


def test_a_seed_in_each_step(logdir: Path) -> None:
    assert dict.fromkeys(range(1, 6), 1.0) == set_back(logdir, lambda step: torch.manual_seed(3))


def test_a_seed_once_or_another_in_each_step(logdir: Path, tmp_path: Path) -> None:
    assert dict.fromkeys(range(1, 6), 0.0) == set_back(logdir, lambda step: None)
    other = set_back(tmp_path / "other", lambda step: torch.manual_seed(step))
    assert dict.fromkeys(range(1, 6), 0.0) == other


def test_where_nothing_is_drawn_nothing_is_told(logdir: Path) -> None:
    """A state that stays says nothing, whether a seed is set or not."""
    assert {} == set_back(logdir, lambda step: torch.manual_seed(3), dropout=0.0)


def test_a_step_that_was_not_looked_at_is_not_compared() -> None:
    random = RandomNumbers()
    assert None is random.called()
    random.end_step()
    random.forget()
    assert None is random.called()


@pytest.mark.parametrize("is_fake", [True, False])
def test_the_numbers_of_the_program_stay_as_they_are(is_fake: bool) -> None:
    """Reading the state draws nothing, also where a mode stands around all operations."""
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    random = RandomNumbers()
    if is_fake:
        with FakeTensorMode():
            random.called()
            random.end_step()
    else:
        random.called()
        random.end_step()
    assert expected.tolist() == torch.rand(4).tolist()
