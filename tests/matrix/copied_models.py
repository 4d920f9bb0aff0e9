"""Models that are copied, saved and exported: builders of a model and of the arguments it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]
MODELS: dict[str, Callable[[], Made]] = {}


def model(make: Callable[[], Made]) -> Callable[[], Made]:
    MODELS[make.__name__.replace("_", "-")] = make
    return make


def rows() -> tuple[torch.Tensor, ...]:
    return (torch.linspace(-1, 1, 24).reshape(4, 6),)


def pictures() -> tuple[torch.Tensor, ...]:
    return (torch.linspace(-1, 1, 2 * 64).reshape(2, 1, 8, 8),)


@model
def mlp() -> Made:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), rows()


@model
def nested() -> Made:
    inner = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    return nn.Sequential(inner, nn.Sequential(nn.Sequential(nn.Linear(6, 6)), nn.GELU())), rows()


@model
def dropped() -> Made:
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 3)), rows()


@model
def normed() -> Made:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.LayerNorm(8)), rows()


@model
def convolved() -> Made:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()), pictures()


@model
def in_place() -> Made:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(inplace=True), nn.Flatten()), pictures()


class Recurrent(nn.Module):
    def __init__(self, cell: type[nn.Module]) -> None:
        super().__init__()
        self.cell, self.head = cell(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x.unsqueeze(0))[0])


@model
def lstm() -> Made:
    return Recurrent(nn.LSTM), rows()


@model
def gru() -> Made:
    return Recurrent(nn.GRU), rows()


@model
def transformer() -> Made:
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    return layer, (torch.linspace(-1, 1, 48).reshape(2, 4, 6),)


@model
def embedded() -> Made:
    return nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 2)), (torch.arange(8).reshape(2, 4),)


class TiedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 6), nn.Linear(6, 6)
        self.down.weight = self.up.weight
        self.same = self.up

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.same(self.down(torch.relu(self.up(x))))


@model
def tied() -> Made:
    return TiedWeights(), rows()


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.named = nn.ModuleDict({"left": nn.Linear(6, 2), "right": nn.Linear(6, 2)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for part in self.parts:
            x = torch.tanh(part(x))
        return {"left": self.named["left"](x), "right": self.named["right"](x)}


@model
def branched() -> Made:
    return Branches(), rows()


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 3), nn.Bilinear(6, 6, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.one(x), self.other(x, y)


@model
def paired() -> Made:
    return Pairs(), (*rows(), rows()[0] * 2)


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("passing", torch.ones(6), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1.0)
        return self.inner(x) * self.passing + 0.01 * self.count


@model
def buffered() -> Made:
    return Buffered(), rows()


class Branching(nn.Module):
    """Its way depends on a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.depth = nn.Linear(6, 6), 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.depth):
            x = torch.relu(self.inner(x)) if self.training else self.inner(x)
        return x


@model
def branching() -> Made:
    return Branching(), rows()


@model
def spectral() -> Made:
    return nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 6)), nn.ReLU()), rows()


@model
def spectral_of_old() -> Made:
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 6)), nn.ReLU()), rows()


@model
def weight_normed() -> Made:
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 6))), rows()


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).T


@model
def parametrized() -> Made:
    layer = nn.Linear(6, 6)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return nn.Sequential(layer), rows()


@model
def lazy() -> Made:
    made = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d())
    made(*rows())
    return made, rows()


@model
def frozen() -> Made:
    made = nn.Sequential(nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, 2))
    return made, rows()


@model
def doubled() -> Made:
    return nn.Sequential(nn.Linear(6, 6), nn.SELU()).double(), (rows()[0].double(),)


class ExtraState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.given = nn.Linear(6, 6), 0

    def get_extra_state(self) -> Any:
        self.given += 1
        return {"given": self.given}

    def set_extra_state(self, state: Any) -> None:
        self.given = state["given"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@model
def with_extra_state() -> Made:
    return ExtraState(), rows()


class Pickled(nn.Module):
    """Says itself what is copied and pickled of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scratch = nn.Linear(6, 6), torch.ones(3)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["scratch"] = None
        return state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@model
def with_own_state() -> Made:
    return Pickled(), rows()


def scaled(self: nn.Linear, input: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output * 1.5


def shifted(self: nn.Sequential, input: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    return (input[0] + 1.0,)


@model
def hooked() -> Made:
    made = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    made[0].register_forward_hook(scaled)
    made.register_forward_pre_hook(shifted)
    return made, rows()


@model
def scripted_part() -> Made:
    return nn.Sequential(torch.jit.script(nn.Linear(6, 6)), nn.ReLU()), rows()


@model
def lists_of_parameters() -> Made:
    return Parameters(), rows()


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([torch.ones(6), torch.full((6,), 0.5)])
        self.shift = nn.Parameter(torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scales[0] * self.scales[1] + self.shift
