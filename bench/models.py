"""The three networks that are trained, and the data that they are trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 1
TOKENS = 320

# Each input meets another label each time it comes: there is nothing to learn by heart, so gradients keep
# their size, however many steps are run. (Vanishing ones would be subnormal, which processors are slow at.)
INPUTS = 8
LABELS = 509


class Encoder(nn.Module):
    """A transformer encoder over token numbers, with an embedding in front and a classifier behind."""

    def __init__(self, *, width: int = 256, layers: int = 6) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.embedding = nn.Embedding(TOKENS, width)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(self.embedding(tokens)))
        return scores.flatten(0, 1)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )  # fmt: skip


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A network with its batches."""

    name: str
    title: str
    make: Callable[[], nn.Module]
    batch: tuple[int, ...]
    classes: int
    labels: int
    tokens: bool = False

    def inputs(self) -> Tensor:
        return torch.randint(0, TOKENS, self.batch) if self.tokens else torch.randn(self.batch)


KINDS = (
    Kind("mlp", "MLP", mlp, (128, 784), 10, 128),
    Kind("cnn", "CNN", cnn, (32, 3, 32, 32), 10, 32),
    Kind("transformer", "transformer", Encoder, (16, 64), TOKENS, 16 * 64, tokens=True),
)


class Training:
    """One copy of a network in training; all copies of a kind begin equal and see the same batches."""

    def __init__(self, kind: Kind) -> None:
        torch.manual_seed(SEED)
        self.model = kind.make()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self._inputs = [kind.inputs() for _ in range(INPUTS)]
        self._labels = [torch.randint(0, kind.classes, (kind.labels,)) for _ in range(LABELS)]
        self.steps = 0

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def backward(self) -> Tensor:
        """The first half of a step, up to the gradients; the loss."""
        self.optimizer.zero_grad()
        scores = self.model(self._inputs[self.steps % INPUTS])
        loss = functional.cross_entropy(scores, self._labels[self.steps % LABELS])
        loss.backward()
        return loss

    def step(self) -> Tensor:
        """One whole step; its loss."""
        loss = self.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.detach()
