"""Kinds whose loops, optimizers and hooks do more than the plain ones."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any, ClassVar

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.matrix.kinds_modules import WithOdd
from tests.matrix.subjects import HIDDEN, Net, drift, kind


@kind
class OptimizerHooks(Net):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def optimizers(self) -> list[torch.optim.Optimizer]:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        optimizer.register_step_pre_hook(lambda *_: self.seen.append("before"))
        optimizer.register_step_post_hook(lambda *_: self.seen.append("after"))
        optimizer.register_state_dict_pre_hook(lambda *_: self.seen.append("state"))
        optimizer.register_state_dict_post_hook(lambda *_: self.seen.append("state given"))
        return [optimizer]

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, len(self.seen))

    def outside(self) -> Any:
        return self.seen


class NoisySgd(torch.optim.SGD):
    """An optimizer with a generator and a counter of its own."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.05)
        self.generator, self.taken = torch.Generator().manual_seed(1), 0

    def step(self, closure: Any = None) -> Any:
        self.taken += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.add_(torch.randn(parameter.shape, generator=self.generator), alpha=0.01)
        return super().step(closure)


@kind
class NoisyOptimizer(WithOdd):
    def optimizers(self) -> list[torch.optim.Optimizer]:
        self.noisy = NoisySgd(self.parameters())
        return [self.noisy]

    def outside(self) -> Any:
        return self.inner.calls, self.noisy.taken, self.noisy.generator.get_state()


@kind
class Scheduled(WithOdd):
    def optimizers(self) -> list[torch.optim.Optimizer]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        self.schedule = OneCycleLR(optimizer, 0.1, total_steps=40)
        return [optimizer]

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        super().advance(optimizers, x)
        self.schedule.step()

    def outside(self) -> Any:
        return self.inner.calls, self.schedule.last_epoch, self.schedule.get_last_lr()


@kind
class HooksInForward(Net):
    """Puts another hook on itself in each pass, and takes the last one off."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[Any] = []

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        for handle in self.handles:
            handle.remove()
        self.handles = [self.last.register_forward_hook(self.scaled)]
        return hidden

    def scaled(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(output, self.calls)

    def outside(self) -> Any:
        return self.calls, [list(module._forward_hooks) != [] for module in self.handles and [self.last]]


@kind
class OwnHooks(Net):
    """Hooks of every sort, which count in which order they come."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.last.register_forward_pre_hook(self.told("pre"))
        self.last.register_forward_pre_hook(self.told("pre first"), prepend=True)
        self.last.register_forward_hook(self.told("hook"))
        self.last.register_forward_hook(self.told("hook first"), prepend=True)
        self.last.register_forward_hook(self.told("with keywords"), with_kwargs=True)
        self.last.register_forward_hook(self.told("always"), always_call=True)
        self.last.register_full_backward_hook(self.told("backward"))
        self.last.register_full_backward_pre_hook(self.told("backward pre"))

    def told(self, word: str) -> Any:
        def hook(*_: Any) -> None:
            self.seen.append(word)

        return hook

    def outside(self) -> Any:
        return self.seen


@kind
class RaisesOnNan(WithOdd):
    """Its forward pass raises at a NaN, and the loop goes on with the next batch."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        if not torch.isfinite(hidden).all():
            self.inner.calls += 100
            raise FloatingPointError("not finite")
        return super().middle(hidden)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return super().loss(x)
        except FloatingPointError:
            return self.last.weight.sum() * float("nan")


@kind
class BypassesCall(WithOdd):
    """Calls `forward` of its layers itself, so that no hook of theirs runs."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner.forward(hidden)


@kind
class OwnCall(WithOdd):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return super().__call__(*args, **kwargs)

    def outside(self) -> Any:
        return self.calls, self.inner.calls


@kind
class TrainCounted(WithOdd):
    """Counts changes of its mode, and who is in which."""

    def train(self, mode: bool = True) -> Any:
        self.switched = getattr(self, "switched", 0) + 1
        return super().train(mode)

    def outside(self) -> Any:
        return self.inner.calls, getattr(self, "switched", 0), self.training


@kind
class EvaluatesBetween(WithOdd):
    """A validation in eval mode before each step."""

    def feed(self, step: int) -> None:
        self.eval()
        with torch.no_grad():
            self.loss(torch.ones(2, 6))
        self.train()


@kind
class TwicePerStep(WithOdd):
    """Accumulates two batches a step."""

    def backward(self, loss: torch.Tensor) -> None:
        (loss / 2).backward()  # type: ignore[no-untyped-call]
        (self.loss(torch.ones(3, 6)) / 2).backward()  # type: ignore[no-untyped-call]


@kind
class Parallel(WithOdd):
    """DataParallel, which on a machine without GPUs passes everything on."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = [nn.DataParallel(self)]

    def watched(self) -> nn.Module | dict[str, nn.Module]:
        return self.outer[0]

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer[0](x).square().mean()  # type: ignore[no-any-return]


@kind
class Averaged(WithOdd):
    """An averaged copy of the model, made before and moved after each step."""

    def optimizers(self) -> list[torch.optim.Optimizer]:
        self.averaged = [AveragedModel(self, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)]
        return super().optimizers()

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        super().advance(optimizers, x)
        self.averaged[0].update_parameters(self)

    def outside(self) -> Any:
        return self.inner.calls, list(self.averaged[0].parameters()), list(self.averaged[0].buffers())


@kind
class CopiedInLoop(WithOdd):
    """The best model so far is a deep copy; a pickle is kept, too, and both are called."""

    seen: ClassVar[list[Any]] = []  # of the class, as it is not to be copied

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        super().advance(optimizers, x)
        copied = copy.deepcopy(self)
        again = pickle.loads(pickle.dumps(copied))
        with torch.no_grad():
            self.seen.append((copied(x), again(x), self.hooks_of(copied), self.hooks_of(again)))

    def hooks_of(self, copied: nn.Module) -> list[int]:
        return [
            len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
            for module in copied.modules()
        ]

    def outside(self) -> Any:
        return self.inner.calls, self.seen


@kind
class ScriptedInLoop(WithOdd):
    """Exports its inner part by torch.jit.script in each step, from a copy and from itself."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.exported: list[Any] = []

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.plain(super().middle(hidden))  # type: ignore[no-any-return]

    def advance(self, optimizers: list[torch.optim.Optimizer], x: torch.Tensor) -> None:
        super().advance(optimizers, x)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for each in (copy.deepcopy(self.plain).eval(), self.plain):
                scripted = torch.jit.script(each)
                self.exported.append((scripted.code, scripted(torch.ones(1, HIDDEN))))

    def outside(self) -> Any:
        return self.inner.calls, self.exported
