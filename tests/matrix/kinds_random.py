"""Kinds that draw random numbers, most of them from generators of their own."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.matrix.subjects import HIDDEN, Net, drift, kind


@kind
class OwnTorchGenerator(Net):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + 0.1 * torch.randn(hidden.shape, generator=self.generator)

    def outside(self) -> Any:
        return self.generator.get_state()


@kind
class OwnNumpyGenerator(Net):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(3)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.generator.normal())

    def outside(self) -> Any:
        return self.generator.bit_generator.state


@kind
class OwnRandomState(Net):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.RandomState(3)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * torch.from_numpy(self.generator.rand(HIDDEN).astype(np.float32))

    def outside(self) -> Any:
        return self.generator.get_state()


@kind
class OwnPythonRandom(Net):
    def __init__(self) -> None:
        super().__init__()
        self.generator = random.Random(3)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden if self.generator.random() < 0.5 else -hidden

    def outside(self) -> Any:
        return self.generator.getstate()


GENERATOR_OF_MODULE = torch.Generator().manual_seed(5)


@kind
class GlobalGenerator(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * torch.bernoulli(torch.full_like(hidden, 0.8), generator=GENERATOR_OF_MODULE)

    def outside(self) -> Any:
        return GENERATOR_OF_MODULE.get_state()


@kind
class TimeSeeded(Net):
    """Its numbers are others in each program; how many were drawn is not."""

    def __init__(self) -> None:
        super().__init__()
        self.seed = time.time_ns()
        self.generator = random.Random(self.seed)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, 0.0 * self.generator.random())

    def outside(self) -> Any:
        again = random.Random(self.seed)
        for drawn in itertools.count():
            if again.getstate() == self.generator.getstate() or drawn == 1000:
                return drawn
            again.random()


@kind
class GlobalGenerators(Net):
    """Those of torch, NumPy and Python, which every training shares."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden + 0.1 * torch.rand_like(hidden), np.random.rand() + random.random())


@kind
class SeedsAnew(Net):
    """Seeds torch itself in each forward pass, from a number that grows."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        torch.manual_seed(self.calls)
        return hidden + 0.1 * torch.rand_like(hidden)

    def outside(self) -> Any:
        return self.calls


@kind
class Dropout(Net):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.drop(functional.dropout(hidden, 0.2))


@kind
class GumbelSoftmax(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return functional.gumbel_softmax(hidden, tau=0.7, hard=True) + hidden


@kind
class VariationalEncoder(Net):
    """A VAE keeps its divergence for the loss on itself."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.divergence = torch.zeros(())

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        mean, spread = self.mean(hidden), self.spread(hidden)
        self.divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).mean()
        return mean + torch.randn_like(mean) * (0.5 * spread).exp()

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return super().loss(x) + self.divergence


@kind
class PermutedUnits(Net):
    def __init__(self) -> None:
        super().__init__()
        self.order = random.Random(9)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        units = list(range(HIDDEN))
        self.order.shuffle(units)
        return hidden[:, units] + hidden[:, np.random.permutation(HIDDEN)]

    def outside(self) -> Any:
        return self.order.getstate()
