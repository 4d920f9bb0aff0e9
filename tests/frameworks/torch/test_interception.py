"""Modes and classes of tensors of the user's are told of the user's operations, and of none of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.utils._pytree import tree_map_only

import tb_netdebug as nd
from tb_netdebug.frameworks.torch.interception import (
    OVERRIDING,
    Unintercepted,
    intercepted,
    is_intercepted,
    popped,
    pushed,
)
from tests.matrix.kinds_modes import CountedTensor, DispatchCounter, FunctionCounter

Mode = DispatchCounter | FunctionCounter
STEPS = 4
BOTH = pytest.mark.parametrize("make", [DispatchCounter, FunctionCounter])


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def train(mode: Mode, watch: Callable[..., Any] | None, **options: Any) -> tuple[int, float]:
    """All of a training within the mode; how many operations it has seen, and the last loss."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with mode:
        monitor = None if watch is None else watch(model, optimizer, **options)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(torch.randn(5, 6)), torch.tensor([0, 1, 2, 0, 1]))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
                monitor.tensor("loss", loss)
        if monitor is not None:
            monitor.capsule()
            monitor.close()
    return mode.count, loss.item()


@BOTH
@pytest.mark.parametrize("options", [{"every": 1}, {"check_numerics": "layers"}, {"check_numerics": "ops"}])
def test_a_mode_around_all_sees_the_training_alone(
    make: type[Mode], options: dict[str, Any], logdir: Path
) -> None:
    """As many operations as without NetDebug, from `watch` to `close`, and the same random numbers."""
    expected = train(make(), None)
    assert expected == train(make(), nd.watch, logdir=logdir, strict=True, **options)


@BOTH
def test_operations_are_followed_under_a_mode(make: type[Mode], logdir: Path) -> None:
    """`check_numerics="ops"` names the operation that made the NaN, with a mode of the user's around it."""

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(-self.layer(x).abs() - 1.0)

    model = Broken()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, check_numerics="ops", on_finding="ignore") as monitor:
        for _ in range(2):
            with make():
                loss = model(torch.randn(5, 6)).mean()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    operations = [each.evidence.get("operation") for each in monitor.findings]
    assert "log" in [each.value for each in operations if each is not None]


def test_a_traced_graph_has_the_operations_of_the_model_alone(logdir: Path) -> None:
    """Of make_fx, while the model is watched in every step."""
    model, x = network(), torch.randn(5, 6)
    expected = make_fx(model)(x).code
    with nd.watch(model, logdir=logdir, every=1):
        assert expected == make_fx(model)(x).code


def test_fake_tensors_go_through_a_watched_model(logdir: Path) -> None:
    """They have no values, and are not looked at."""
    model = network()
    with (
        nd.watch(model, logdir=logdir, every=1, strict=True) as monitor,
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        assert isinstance(model(torch.randn(5, 6)), FakeTensor)
        monitor.step()


def test_modes_come_back_as_they_were() -> None:
    """In their order, after an exception and after contexts within each other; within them none is told."""
    outer, inner, function = DispatchCounter(), DispatchCounter(), FunctionCounter()
    with function, outer, inner:
        with suppress(KeyError), Unintercepted():
            with Unintercepted():
                torch.ones(2).add(1)
            assert is_intercepted()
            raise KeyError
        assert [0, 0, 0] == [outer.count, inner.count, function.count]
        modes = popped()
        assert [inner, outer] == modes
        pushed(modes)
    assert not is_intercepted()


def test_modes_are_moved_while_they_are_held_back() -> None:
    """What is put below them, or taken away, is so when they come back."""
    users, ours = DispatchCounter(), DispatchCounter()
    with users:
        with Unintercepted():
            pushed([*popped(), ours])
        modes = popped()
        pushed(modes)
        assert [users, ours] == modes
        with Unintercepted():
            pushed([mode for mode in popped() if mode is not ours])
        modes = popped()
        pushed(modes)
        assert [users] == modes


def test_code_of_the_users_is_intercepted_within() -> None:
    """What runs again in a copy of the process sees the modes of the training."""
    mode, function = DispatchCounter(), FunctionCounter()
    number = torch.ones(2)
    with function, mode, Unintercepted():
        number.neg()
        with intercepted():
            number.neg()
        number.neg()
    assert (2, 1) == (mode.count, function.count)  # the function mode draws a number, too


class Wrapper(torch.Tensor):
    """Holds another tensor, and counts the operations on it."""

    inner: torch.Tensor
    count = 0
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Wrapper.count += 1
        args, kwargs = tree_map_only(Wrapper, lambda each: each.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapper, func(*args, **kwargs))


@pytest.mark.parametrize("made", [Wrapper, lambda x: x.as_subclass(CountedTensor)])
def test_a_class_of_tensors_is_asked_for_the_training_alone(
    made: Callable[[torch.Tensor], Any], logdir: Path
) -> None:
    """The class of a batch counts as many functions or operations as without NetDebug."""
    counts = []
    for watched in (False, True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        monitor = nd.watch(model, optimizer, logdir=logdir, every=1, strict=True) if watched else None
        before = CountedTensor.count + Wrapper.count
        for _ in range(STEPS):
            loss = model(made(torch.ones(5, 6))).square().mean()
            loss.backward()
            optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
        if monitor is not None:
            monitor.close()
        counts.append(CountedTensor.count + Wrapper.count - before)
    assert counts[0] == counts[1]


class Ending(nn.Module):
    """A network that gives its output another class, as the user's code sets it in each step."""

    kind: type[torch.Tensor] = torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x).as_subclass(self.kind)


class Within(nn.Module):
    """The same in the middle, for layers."""

    kind: type[torch.Tensor] = torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Ending(), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        self.first.kind = self.kind
        return self.second(self.first(x)).as_subclass(torch.Tensor)


class Named(nn.Module):
    """A network that takes a list and returns a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, batch: list[torch.Tensor]) -> Any:
        return {"out": self.inner(batch[0])}


def new_class(told: list[str]) -> type[torch.Tensor]:
    class New(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    return New


def step_with(kind: Any, where: str, model: Any, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """A step in which something is of this class; return its loss."""
    x, target = torch.ones(5, 6), torch.zeros(5, 3)
    model.kind = kind if where in ("output", "layer") else torch.Tensor
    given: Any = x.as_subclass(kind) if where in ("input", "nested") else x
    output = model([given])["out"] if where == "nested" else model(given)
    loss = functional.mse_loss(output, target.as_subclass(kind) if where == "target" else target)
    loss = loss.as_subclass(kind) if where == "loss" else loss
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if where == "gradient":
        for each in model.parameters():
            each.grad = each.grad.as_subclass(kind)
    optimizer.step()
    return loss


def told_of(where: str, watch: Callable[..., Any] | None) -> list[list[str]]:
    """Return what a class that is made in a step is told there, for each of three steps."""
    model = {"output": Ending, "layer": Within, "nested": Named}.get(where, network)()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = None if watch is None else watch(model, optimizer)
    seen = []
    for _ in range(3):
        told: list[str] = []
        loss = step_with(new_class(told), where, model, optimizer)
        if monitor is not None:
            monitor.step(loss=loss, half=loss)
        seen.append(told)
    if monitor is not None:
        monitor.close()
    return seen


@pytest.mark.parametrize("every", [1, 10**6])
@pytest.mark.parametrize("where", ["input", "nested", "output", "layer", "target", "loss", "gradient"])
def test_a_class_that_is_made_in_a_step_is_asked_for_the_training_alone(
    where: str, every: int, logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever its first instance appears, it is seen before anything of it is read."""
    monkeypatch.setattr(OVERRIDING, "look", lambda: None)  # this file has classes of its own

    def watch(*args: Any) -> nd.Monitor:
        monkeypatch.setattr(OVERRIDING, "exist", False)
        return nd.watch(*args, logdir=logdir, every=every, strict=True)

    assert told_of(where, None) == told_of(where, watch)
