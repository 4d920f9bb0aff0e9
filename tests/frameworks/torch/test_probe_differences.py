"""Losses that a program writes itself, and what it subtracts there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.probed import Probed, probed, sgd

Loss = Callable[[Tensor, Tensor], Tensor]


def trained(logdir: Path, loss_of: Loss, *, outputs: int = 1) -> Probed:
    """Batches of 8; the loss is given what the model puts out and 8 targets in a row."""
    torch.manual_seed(0)
    model = nn.Linear(6, outputs)
    optimizer = sgd(model)

    def body(step: int) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(torch.randn(8, 6)), torch.randn(8))
        loss.backward()
        optimizer.step()
        return loss

    return probed(logdir, model, optimizer, body)


@pytest.mark.parametrize(
    ("loss_of", "shape"),
    [
        (lambda output, target: ((output - target) ** 2).mean(), [8, 1]),
        (lambda output, target: (target - output).abs().sum() / 64, [8, 1]),
        (lambda output, target: (output.squeeze() - target[:, None]).square().mean(), [8]),
        (lambda output, target: (output.view(-1) - target[:, None]).square().mean(), [8]),
        (lambda output, target: 0.1 * output.mean() + (output - target).pow(2).mean().sqrt(), [8, 1]),
    ],
)
def test_a_column_against_a_row(loss_of: Loss, shape: list[int], logdir: Path) -> None:
    """Told once, in the first step."""
    ((step, told),) = trained(logdir, loss_of).facts["difference"]
    assert (0, shape, [8, 8]) == (step, told["prediction_shape"], told["shape"])


@pytest.mark.parametrize(
    ("loss_of", "outputs"),
    [
        (lambda output, target: (output[:, 0] - target).square().mean(), 1),
        (lambda output, target: (output - target[:, None]).square().mean(), 1),
        (lambda output, target: (output - target).square().mean(), 8),  # eight outputs for each row
        (lambda output, target: (output - output.T).relu().mean(), 1),  # all pairs of predictions
        (lambda output, target: (output[:, 0].unsqueeze(1) - target).abs().min(1).values.mean(), 1),
        (lambda output, target: (output[:, 0].view(-1, 1) - target).abs().min(1).values.mean(), 1),
        (lambda output, target: (1.0 - output).square().mean(), 1),
        (lambda output, target: (output - target[:5]).square().mean(), 1),  # quantiles, not its own rows
    ],
)
def test_what_is_meant(loss_of: Loss, outputs: int, logdir: Path) -> None:
    """Equal shapes, pairs that the program has asked for, and what has nothing to do with the batch."""
    assert "difference" not in trained(logdir, loss_of, outputs=outputs).facts
