"""Kinds that write weights, buffers and plain tensors in their forward pass."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from tests.matrix.subjects import HIDDEN, ROWS, Net, drift, kind


@kind
class MomentumEncoder(Net):
    """MoCo: an encoder that follows the trained one, and a queue of its outputs, written in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(16, HIDDEN), dim=1))
        self.place = 0

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for mine, its in zip(self.key.parameters(), self.query.parameters(), strict=True):
                mine.data = mine.data * 0.9 + its.data * 0.1
            self.queue[self.place : self.place + ROWS] = functional.normalize(self.key(hidden), dim=1)
            self.place = (self.place + ROWS) % 16
        return hidden + (self.query(hidden) @ self.queue.T).softmax(1) @ self.queue

    def outside(self) -> Any:
        return self.place


@kind
class AverageInForward(Net):
    """Moving averages in plain tensors, which no state_dict has."""

    def __init__(self) -> None:
        super().__init__()
        self.average, self.squares = torch.zeros(HIDDEN), [torch.ones(HIDDEN)]

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.average.mul_(0.9).add_(hidden.detach().nan_to_num().mean(0), alpha=0.1)
        self.squares[0] = self.squares[0] * 0.9 + 0.1 * hidden.detach().square().mean(0).nan_to_num()
        return (hidden - self.average) / self.squares[0].sqrt()

    def outside(self) -> Any:
        return self.average, self.squares


@kind
class TeacherStudent(Net):
    """The teacher is no submodule: it hangs in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = [copy.deepcopy(self.first)]

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for mine, its in zip(self.teacher[0].parameters(), self.first.parameters(), strict=True):
                mine.lerp_(its.nan_to_num(), 0.1)
        return hidden + 0.1 * self.teacher[0].weight.mean()

    def outside(self) -> Any:
        return list(self.teacher[0].parameters())


@kind
class Codebook(Net):
    """VQ-VAE: vectors that follow what is assigned to them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randn(12, HIDDEN))
        self.used = torch.zeros(12)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        nearest = torch.cdist(hidden.detach(), self.codes).argmin(1)
        self.used.index_add_(0, nearest, torch.ones(ROWS))
        self.codes[nearest] = self.codes[nearest] * 0.9 + hidden.detach() * 0.1
        return hidden + (self.codes[nearest] - hidden).detach()

    def outside(self) -> Any:
        return self.used


@kind
class MixtureOfExperts(Net):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.gate = nn.Linear(HIDDEN, 3)
        self.load = [0, 0, 0]

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        shares = self.gate(hidden).softmax(1) + 0.01 * torch.tensor(self.load) / (1 + sum(self.load))
        chosen = shares.argmax(1)
        for expert in chosen.tolist():
            self.load[expert] += 1
        outputs = torch.stack([expert(hidden) for expert in self.experts])
        return outputs[chosen, torch.arange(ROWS)] * shares.amax(1, keepdim=True)

    def outside(self) -> Any:
        return self.load


@kind
class BatchNorm(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(HIDDEN)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.norm(hidden)  # type: ignore[no-any-return]


@kind
class BatchNormCumulative(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(HIDDEN, momentum=None)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.norm(hidden)  # type: ignore[no-any-return]


@kind
class SpectralNorm(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = parametrizations.spectral_norm(nn.Linear(HIDDEN, HIDDEN))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner(hidden)  # type: ignore[no-any-return]


@kind
class SpectralNormOfOld(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.utils.spectral_norm(nn.Linear(HIDDEN, HIDDEN))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner(hidden)  # type: ignore[no-any-return]


@kind
class WeightNorm(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = parametrizations.weight_norm(nn.Linear(HIDDEN, HIDDEN))
        self.outer = parametrizations.orthogonal(nn.Linear(HIDDEN, HIDDEN))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(hidden))  # type: ignore[no-any-return]


@kind
class LazyLayer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LazyLinear(HIDDEN)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        self(torch.zeros(1, 6))  # as users do before they make an optimizer
        return super().optimizers()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner(hidden)  # type: ignore[no-any-return]


@kind
class ClampedInForward(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.last.weight.data.mul_(0.99).clamp_(-0.5, 0.5)
        return hidden


@kind
class FrozenInForward(Net):
    """Every second pass trains the last layer, the others do not."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last.requires_grad_(self.calls % 2 == 0)
        return hidden

    def outside(self) -> Any:
        return self.calls, self.last.weight.requires_grad


@kind
class ReplayBuffer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.memory: list[torch.Tensor] = []
        self.picks = random.Random(2)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.memory.append(hidden.detach())
        return hidden + 0.1 * self.picks.choice(self.memory)

    def outside(self) -> Any:
        return self.memory, self.picks.getstate()


@kind
class CarriedState(Net):
    """A recurrent network that goes on where the last batch has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.state: torch.Tensor | None = None

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        found, state = self.cell(hidden.unsqueeze(0), self.state)
        self.state = state.detach()
        return found.squeeze(0)  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.state


@kind
class KeyValueCache(Net):
    """A transformer that attends to all of its earlier batches."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(HIDDEN), nn.MultiheadAttention(HIDDEN, 2, batch_first=True)
        self.cache: list[torch.Tensor] = []

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        mine = self.norm(hidden).unsqueeze(0)
        self.cache.append(mine.detach())
        known = torch.cat([*self.cache[:-1], mine], 1)
        return hidden + self.attend(mine, known, known)[0].squeeze(0)

    def outside(self) -> Any:
        return self.cache


@kind
class GrowingBuffer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("history", torch.zeros(0, HIDDEN), persistent=False)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.history = torch.cat([self.history, hidden.detach().mean(0, keepdim=True)])
        return hidden + 0.1 * self.history.mean(0)


@kind
class GrowingNetwork(Net):
    """Adds a layer in every third pass."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.ModuleList()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % 3 == 0:
            self.more.append(nn.Linear(HIDDEN, HIDDEN))
        for layer in self.more:
            hidden = hidden + layer(hidden)
        return hidden

    def outside(self) -> Any:
        return self.calls


@kind
class ParameterInForward(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.register_parameter(f"shift{self.calls}", nn.Parameter(torch.rand(HIDDEN)))
        return hidden + sum(parameter for name, parameter in self.named_parameters(recurse=False))


@kind
class ReplacedLayer(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.side = nn.Linear(HIDDEN, HIDDEN)
        return drift(hidden + self.side(hidden).detach(), self.calls)

    def outside(self) -> Any:
        return self.calls


@kind
class Tied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(HIDDEN, HIDDEN)
        self.up = nn.Linear(HIDDEN, HIDDEN)
        self.up.weight = self.down.weight
        self.again = self.down

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(self.again(self.up(self.down(hidden))), self.calls)

    def outside(self) -> Any:
        return self.calls, self.up.weight is self.down.weight


@kind
class Adversaries(Net):
    """Two models and two optimizers, and a pool of fakes."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.ModuleDict({"G": Net(), "D": nn.Linear(3, 1)})
        self.pool: list[torch.Tensor] = []
        self.picks = random.Random(4)

    def watched(self) -> nn.Module | dict[str, nn.Module]:
        return dict(self.both.items())

    def trained(self) -> nn.Module:
        return self.both

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(model.parameters(), lr=0.01) for model in self.both.values()]

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        fake = self.both["G"](x)
        self.pool.append(fake.detach())
        real = self.both["D"](self.picks.choice(self.pool)).mean()
        return functional.softplus(self.both["D"](fake)).mean() + functional.softplus(-real)

    def outside(self) -> Any:
        return self.pool, self.picks.getstate()


@kind
class ListRoot(Net):
    """The model is a ModuleList, which is never called itself."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([self.first, self.last])

    def watched(self) -> nn.Module | dict[str, nn.Module]:
        return self.parts

    def trained(self) -> nn.Module:
        return self.parts

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        hidden = torch.tanh(self.parts[0](self.fragile(x)))
        return self.parts[1](drift(hidden, self.calls)).square().mean()  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.calls
