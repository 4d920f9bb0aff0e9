"""Kinds that are told of torch's operations: by modes, and by classes of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.matrix.subjects import ROWS, WIDTH, Net, drift, kind


class DispatchCounter(TorchDispatchMode):
    """Counts operations and draws a number for each, as the injection of faults does."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        torch.rand(())
        return func(*args, **(kwargs or {}))


class FunctionCounter(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        torch.rand(())
        return func(*args, **(kwargs or {}))


class WithMode(Net):
    mode_class: type[DispatchCounter | FunctionCounter] = DispatchCounter

    def __init__(self) -> None:
        super().__init__()
        self.mode = self.mode_class()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.mode.count % 13)

    def outside(self) -> Any:
        return self.mode.count


@kind
class DispatchModeForward(WithMode):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.mode:
            return super().forward(x)


@kind
class FunctionModeForward(DispatchModeForward):
    mode_class = FunctionCounter


@kind
class DispatchModeLoss(WithMode):
    def loss(self, x: torch.Tensor) -> torch.Tensor:
        with self.mode:
            output = self(x)
            return nn.functional.mse_loss(output, torch.zeros_like(output))


@kind
class FunctionModeLoss(DispatchModeLoss):
    mode_class = FunctionCounter


@kind
class DispatchModeUpdate(WithMode):
    """Around the backward pass and the optimizer's step."""

    def backward(self, loss: torch.Tensor) -> None:
        with self.mode:
            super().backward(loss)

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        with self.mode:
            super().advance(optimizers, x)


@kind
class FunctionModeUpdate(DispatchModeUpdate):
    mode_class = FunctionCounter


@kind
class DispatchModeLoop(WithMode):
    """From the first step to the last, around all that the loop calls."""

    def feed(self, step: int) -> None:
        if not step:
            self.mode.__enter__()

    def end(self) -> None:
        self.mode.__exit__(None, None, None)


@kind
class FunctionModeLoop(DispatchModeLoop):
    mode_class = FunctionCounter


class CountedTensor(torch.Tensor):
    count = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        CountedTensor.count += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class CountedParameter(nn.Parameter):
    count = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        CountedParameter.count += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@kind
class CountedInput(Net):
    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return super().loss(x.as_subclass(CountedTensor)).as_subclass(torch.Tensor)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, CountedTensor.count % 13)

    def outside(self) -> Any:
        return CountedTensor.count


@kind
class CountedOutput(CountedInput):
    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return Net.loss(self, x)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().middle(hidden).as_subclass(CountedTensor)


@kind
class CountedWeights(Net):
    def __init__(self) -> None:
        super().__init__()
        self.first.weight = CountedParameter(self.first.weight.data)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, CountedParameter.count % 13)

    def outside(self) -> Any:
        return CountedParameter.count


@kind
class TracedInLoop(Net):
    """Its graph, traced while it is trained, has its own operations alone."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: list[str] = []

    def feed(self, step: int) -> None:
        if step == 3:
            self.graphs.append(make_fx(self)(torch.ones(ROWS, WIDTH)).code)  # type: ignore[no-untyped-call]

    def outside(self) -> Any:
        return self.graphs
