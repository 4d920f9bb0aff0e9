"""Kinds with parts that are scripted, traced or compiled."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from tests.matrix.subjects import HIDDEN, Net, drift, kind


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.deep(hidden) + 0.01 * self.count  # type: ignore[no-any-return]


@kind
class ScriptedPart(Net):
    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.inner = torch.jit.script(Inner())

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner(hidden)  # type: ignore[no-any-return]


@kind
class TracedPart(Net):
    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.inner = torch.jit.trace(nn.Linear(HIDDEN, HIDDEN), torch.ones(1, HIDDEN))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(self.inner(hidden), self.calls)

    def outside(self) -> Any:
        return self.calls


class Compiled(Net):
    """The model that is watched is compiled as a whole."""

    backend = "eager"

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.graphs = torch._dynamo.testing.CompileCounterWithBackend(self.backend)
        self.whole: list[Any] = [torch.compile(self.inner, backend=self.graphs)]

    def watched(self) -> nn.Module | dict[str, nn.Module]:
        return self.whole[0]  # type: ignore[no-any-return]

    def trained(self) -> nn.Module:
        return self.inner

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        hidden = torch.cat([self.fragile(x), x[:, : HIDDEN - x.shape[1]]], 1)
        return self.whole[0](drift(hidden, self.calls)).square().mean()  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.calls, self.graphs.frame_count, self.graphs.op_count


@kind
class CompiledEager(Compiled):
    pass


@kind
class CompiledAotEager(Compiled):
    backend = "aot_eager"


@kind
class CompiledPart(Net):
    """One submodule is compiled, the root is not."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        self.inner = torch.compile(Inner(), backend=self.graphs)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner(hidden)  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.graphs.frame_count, self.graphs.op_count


@kind
class CompiledInPlace(Net):
    """`module.compile()`, with state that dynamo has to guard."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs = torch._dynamo.testing.CompileCounterWithBackend("eager")
        self.inner = Inner()
        self.inner.compile(backend=self.graphs)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(self.inner(hidden), self.calls)

    def outside(self) -> Any:
        return self.calls, self.graphs.frame_count, self.graphs.op_count
