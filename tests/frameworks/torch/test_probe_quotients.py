"""Losses that a program writes itself, and what it divides them by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.support.probed import Probed, probed, sgd

Loss = Callable[[Tensor, Tensor], Tensor]


def overlap(scores: Tensor, mask: Tensor) -> Tensor:
    return 1 - (2 * (scores * mask).sum() + 1) / (scores.sum() + mask.sum() + 1)


def overlap_of_rows(scores: Tensor, mask: Tensor) -> Tensor:
    shared = 2 * (scores * mask).sum(1)
    return (1 - shared / (scores.sum(1) + mask.sum(1)).clamp(min=-100)).mean()


def trained(logdir: Path, loss_of: Loss) -> tuple[Probed, list[Tensor]]:
    """Batches of 8 with 5 scores each; also what the network gave in each step."""
    torch.manual_seed(0)
    model = nn.Linear(6, 5)
    optimizer = sgd(model)
    given: list[Tensor] = []

    def body(step: int) -> Tensor:
        optimizer.zero_grad()
        scores = model(torch.randn(8, 6))
        given.append(scores.detach())
        loss = loss_of(scores, torch.ones(8, 5))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return probed(logdir, model, optimizer, body), given


def test_one_sum_divides_the_loss(logdir: Path) -> None:
    """Also of a quarter of it, as it is accumulated."""
    found, given = trained(logdir, lambda scores, mask: overlap(scores, mask) / 4)
    sums = [scores.sum().item() + 41.0 for scores in given]
    for end in ("min", "max"):
        assert pytest.approx(sums, rel=1e-4) == list(found.scalar(f"probe/divisor/0/{end}").values())


def test_a_sum_for_each_row(logdir: Path) -> None:
    found, given = trained(logdir, overlap_of_rows)
    sums = [scores.sum(1) + 5.0 for scores in given]
    for end, ends in (("min", [each.min() for each in sums]), ("max", [each.max() for each in sums])):
        assert pytest.approx(list(map(float, ends)), rel=1e-4) == list(
            found.scalar(f"probe/divisor/0/{end}").values()
        )


def test_two_backward_passes_in_a_step(logdir: Path) -> None:
    """Their divisors are not taken for one."""

    def loss_of(scores: Tensor, mask: Tensor) -> Tensor:
        overlap(scores, mask).backward(retain_graph=True)  # type: ignore[no-untyped-call]
        return overlap(scores, 0 * mask)

    found, given = trained(logdir, loss_of)
    first, second = (list(found.scalar(f"probe/divisor/{number}/min").values()) for number in (0, 1))
    assert pytest.approx([scores.sum().item() + 41.0 for scores in given], rel=1e-4) == first
    assert pytest.approx([scores.sum().item() + 1.0 for scores in given], rel=1e-3, abs=1e-4) == second


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda scores, mask: functional.mse_loss(scores, mask),
        lambda scores, mask: (scores - mask).square().sum() / mask.sum(),  # no network makes it
        lambda scores, mask: torch.ops.aten.div.Scalar(scores.square().sum(), 40.0),  # a number
        lambda scores, mask: (scores[:, 0] / scores[:, 1]).mean(),  # a coordinate, not a sum
        lambda scores, mask: (scores.sum() / (1 + scores.sum().square())).exp(),  # the loss is not divided
    ],
)
def test_what_divides_no_loss(loss_of: Loss, logdir: Path) -> None:
    found, _ = trained(logdir, loss_of)
    assert not [name for name in found.recorded.scalars if name.startswith("probe/divisor/")]
