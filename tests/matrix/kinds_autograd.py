"""Kinds that use autograd, its modes and its compilers in ways of their own."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, jvp, vmap
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.matrix.subjects import HIDDEN, Net, drift, kind


@kind
class Checkpointed(Net):
    def part(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tanh(hidden) * torch.rand_like(hidden)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, hidden, use_reentrant=False)  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.calls


@kind
class CheckpointedReentrant(Checkpointed):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, hidden, use_reentrant=True)  # type: ignore[no-any-return]


@kind
class SavedTensorsCounted(Net):
    def __init__(self) -> None:
        super().__init__()
        self.packed: list[int] = []
        self.unpacked: list[int] = []

    def pack(self, tensor: torch.Tensor) -> tuple[int, torch.Tensor]:
        self.packed.append(tensor.numel())
        return len(self.packed), tensor * 1.0 if tensor.is_floating_point() else tensor

    def unpack(self, kept: tuple[int, torch.Tensor]) -> torch.Tensor:
        self.unpacked.append(kept[0])
        return kept[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
            return super().forward(x)

    def outside(self) -> Any:
        return self.packed, self.unpacked


class Counted(torch.autograd.Function):
    forwards = 0
    backwards = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Counted.forwards += 1
        ctx.number = Counted.forwards
        return x * (1 + 0.01 * ctx.number)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        Counted.backwards += 1
        return gradients[0] * (1 + 0.01 * Counted.backwards)


@kind
class OwnFunction(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return Counted.apply(hidden)  # type: ignore[no-any-return,no-untyped-call]

    def outside(self) -> Any:
        return Counted.forwards, Counted.backwards


@kind
class GradientPenalty(Net):
    """A gradient inside of the forward pass, and a second derivative behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        output = super().forward(x)
        (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True)
        self.calls += 1
        return drift(output + gradient.square().sum(1, keepdim=True), self.calls)

    def outside(self) -> Any:
        return self.calls


@kind
class InnerOptimizer(Net):
    """Takes some steps of SGD on a copy of a weight in each forward pass, as a meta-learner does."""

    def __init__(self) -> None:
        super().__init__()
        self.fast = torch.zeros(HIDDEN, requires_grad=True)
        self.inner = torch.optim.SGD([self.fast], lr=0.1, momentum=0.9)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.inner.zero_grad()
        (hidden.detach() - self.fast).square().mean().backward()  # type: ignore[no-untyped-call]
        self.inner.step()
        return hidden + self.fast.detach()

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD([*self.first.parameters(), *self.last.parameters()], lr=0.05)]

    def outside(self) -> Any:
        return self.fast, self.inner.state_dict()


@kind
class FunctionalCall(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(HIDDEN, HIDDEN)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        weights = {name: value * (1 + 0.01 * self.calls) for name, value in self.inner.named_parameters()}
        return functional_call(self.inner, weights, (hidden,))  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.calls


@kind
class Vmapped(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(HIDDEN, HIDDEN)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(vmap(self.inner, randomness="different")(hidden), self.calls)

    def outside(self) -> Any:
        return self.calls


@kind
class ForwardMode(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        value, tangent = jvp(self.last, (hidden,), (torch.ones_like(hidden),))
        return drift(hidden + 0.01 * (value.mean() + tangent.mean()), self.calls)

    def outside(self) -> Any:
        return self.calls


class Tagged(torch.Tensor):
    """Counts the functions of torch that are called with it."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.mul, torch.Tensor.add, torch.nn.functional.linear):
            Tagged.seen += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@kind
class TensorSubclass(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return (hidden.as_subclass(Tagged).mul(1.5)).as_subclass(torch.Tensor)

    def outside(self) -> Any:
        return Tagged.seen


@kind
class TensorHooks(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norms: list[float] = []

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: self.norms.append(float(gradient.norm())))
        return hidden

    def outside(self) -> Any:
        return self.norms


@kind
class FlopsCounted(Net):
    """A mode of dispatch that stays on for the whole training."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = FlopCounterMode(display=False)
        self.counter.__enter__()

    def end(self) -> None:
        self.counter.__exit__(None, None, None)

    def outside(self) -> Any:
        return self.counter.get_total_flops()


@kind
class ScaledGradients(Net):
    """Autocast and a GradScaler, which skips the steps that are not finite by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()

    def backward(self, loss: torch.Tensor) -> None:
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        self.scaler.step(optimizers[0])
        self.scaler.update()

    def outside(self) -> Any:
        return self.scaler.state_dict()


@kind
class Lbfgs(Net):
    """Its optimizer calls the model as often as it likes."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(hidden, self.calls % 7)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)]

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        def closure() -> torch.Tensor:
            optimizers[0].zero_grad()
            loss = self.loss(x)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizers[0].step(closure)  # type: ignore[arg-type]

    def outside(self) -> Any:
        return self.calls


@kind
class Complex(Net):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.randn(HIDDEN, HIDDEN, dtype=torch.complex64))
        self.phase = torch.ones((), dtype=torch.complex64)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.phase = self.phase * (0.6 + 0.8j)
        return (hidden.to(torch.complex64) @ self.turn * self.phase).abs()

    def outside(self) -> Any:
        return self.phase


@kind
class SparseEmbedding(Net):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(10, HIDDEN, sparse=True)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        rows = torch.tensor([[self.calls % 10, 3], [1, 2], [self.calls % 7, 0], [9, 9]])
        return hidden + self.table(rows)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        dense = [*self.first.parameters(), *self.last.parameters()]
        sparse = torch.optim.SparseAdam(list(self.table.parameters()), lr=0.01)
        return [torch.optim.SGD(dense, lr=0.05), sparse]

    def outside(self) -> Any:
        return self.calls


@kind
class FakeQuantised(Net):
    """Quantisation-aware training: observers move their range in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

            self.quantise = FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.quantise(hidden)  # type: ignore[no-any-return]


@kind
class DoubleHalf(Net):
    """A float64 part and a bfloat16 part."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Linear(HIDDEN, HIDDEN).double(), nn.Linear(HIDDEN, HIDDEN).bfloat16()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(self.fine(hidden.double()).float() + self.coarse(hidden.bfloat16()).float(), self.calls)

    def outside(self) -> Any:
        return self.calls
