"""The loop of every tutorial, for programs whose fault lies elsewhere; and what often follows from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from zoo.program import Zoo

# Of steps that are far too large.
BLOWS_UP = (
    "diverging-loss",
    "exploding-gradients",
    "update-ratio-high",
    "weight-growth",
    "loss-oscillating",
    "loss-spike",
    "activation-scale",
    "nonfinite-loss",
    "nonfinite-gradient",
    "nonfinite-weight",
    "nonfinite-activation",
)
# Of a network that cannot move, or not to anywhere better.
STANDS_STILL = ("not-learning", "loss-at-chance", "loss-plateau")
# Of a value that is not finite, in the steps and places after it.
NOT_FINITE = ("nonfinite-loss", "nonfinite-gradient", "nonfinite-weight", "nonfinite-activation")


def fit(
    zoo: Zoo,
    model: nn.Module,
    optimizer: Any,
    feed: Iterable[tuple[Tensor, ...]],
    criterion: Callable[[Tensor, Tensor], Tensor],
) -> None:
    monitor = zoo.watch(model, optimizer)
    model.train()
    for x, y in feed:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


def perceptron(*sizes: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])
