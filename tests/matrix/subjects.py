"""What the matrix trains: a small network that its input can break, and the list of all kinds of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

ROWS, WIDTH, HIDDEN, CLASSES = 4, 6, 8, 3
# Greater than any number of a healthy batch, and finite.
HOSTILE = 2e6
LIMIT = 1e6

Kind = TypeVar("Kind", bound="type[Net]")
KINDS: dict[str, Callable[[], Net]] = {}
FAMILIES: dict[str, str] = {}


def kind(cls: Kind) -> Kind:
    """Lists a class as a kind, `OwnGenerator` as own-generator."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
    assert name not in KINDS, name
    KINDS[name] = cls
    FAMILIES[name] = cls.__module__.rpartition("kinds_")[2]
    return cls


class Fragile(nn.Module):
    """Passes numbers on as they are; one beyond the limit makes all of them NaN, the input being finite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.0 * torch.sqrt(LIMIT - x.abs().amax())


class Net(nn.Module):
    """Two layers with something between them that has state where nobody looks.

    A kind overrides `middle` (its forward pass), `outside` (all its state that is neither a parameter nor a
    buffer), and what it needs of the loop: `feed`, `loss`, `optimizers`, `backward`, `advance`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fragile = Fragile()
        self.first = nn.Linear(WIDTH, HIDDEN)
        self.last = nn.Linear(HIDDEN, CLASSES)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(self.fragile(x)))
        result: torch.Tensor = self.last(self.middle(hidden))
        return result

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden

    def outside(self) -> Any:
        """What this kind has beside parameters and buffers."""
        return None

    # ---- the loop ------------------------------------------------------------------------------

    def watched(self) -> nn.Module | dict[str, nn.Module]:
        """What `nd.watch` is given."""
        return self

    def trained(self) -> nn.Module:
        """What has the parameters and the buffers."""
        return self

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(self.trained().parameters(), lr=0.05, momentum=0.9)]

    def feed(self, step: int) -> None:
        """Done by the loop before each step."""

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self(x)
        return output.square().mean()

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        for optimizer in optimizers:
            optimizer.step()

    def end(self) -> None:
        """Done by the loop after the last step."""


def drift(hidden: torch.Tensor, number: float) -> torch.Tensor:
    """Lets a number from outside have its part in the result."""
    return hidden + 0.01 * float(number)
