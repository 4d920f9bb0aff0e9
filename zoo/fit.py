"""The loop of every tutorial, for programs whose fault lies elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from zoo.consequences import BLOWS_UP, NOT_FINITE, STANDS_STILL, UNTRAINED
from zoo.program import Zoo

__all__ = ["BLOWS_UP", "NOT_FINITE", "STANDS_STILL", "UNTRAINED", "descend", "fit", "perceptron"]


def fit(
    zoo: Zoo,
    model: nn.Module,
    optimizer: Any,
    feed: Iterable[tuple[Tensor, ...]],
    criterion: Callable[[Tensor, Tensor], Tensor],
) -> None:
    model.train()
    descend(zoo, model, optimizer, feed, lambda x, y: criterion(model(x), y))


def descend(
    zoo: Zoo,
    model: nn.Module,
    optimizer: Any,
    feed: Iterable[tuple[Any, ...]],
    loss_of: Callable[..., Tensor],
) -> None:
    """The same for what is more than a criterion of one output: `loss_of` gets a batch of the feed."""
    monitor = zoo.watch(model, optimizer)
    for batch in feed:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


def perceptron(*sizes: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])
