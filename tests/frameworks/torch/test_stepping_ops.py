"""Stepping by operation: through a mode of torch that comes and goes in the middle of things."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.workbench import NOTHING, Needs
from tests.support.loops import mlp
from tests.support.stepping import ALL, Script, end_step, sgd, stepped

OPS = Needs(ops=True)
PHASES = Needs(phases=True)
stack_length = torch._C._len_torch_dispatch_stack


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))


def ops(script: Script) -> list[tuple[str, str | None, str]]:
    return [(place.phase, place.module, place.op) for place in script.places if place.op]


def computing(script: Script) -> list[tuple[str, str | None, str]]:
    """Without those that only look at the same values in another way."""
    looks = ("detach", "t.default", "alias", "view", "expand", "ones_like")
    return [each for each in ops(script) if not any(f"aten.{look}" in each[2] for look in looks)]


class Listener(TorchDispatchMode):
    """A mode of the user's, which notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


# ---- what is told --------------------------------------------------------------------------


def test_each_operation_is_told_with_its_phase_and_layer(logdir: Path) -> None:
    """In the backward pass, too; what we compute ourselves is not among them."""
    model = small()
    optimizer = sgd(model)
    with stepped(logdir, model, optimizer, needs=OPS) as (script, monitor):
        loss = model(torch.ones(2, 3)).square().sum()
        loss.backward()
        optimizer.step()
        found = computing(script)
        end_step(script, monitor, loss)
    assert [
        ("forward", None, "aten.ones.default"),
        ("forward", "0", "aten.addmm.default"),
        ("forward", "1", "aten.tanh.default"),
        ("forward", "2", "aten.addmm.default"),
        ("forward", None, "aten.pow.Tensor_Scalar"),
        ("forward", None, "aten.sum.default"),
        ("backward", None, "aten.pow.Tensor_Scalar"),
        ("backward", None, "aten.mul.Scalar"),
        ("backward", None, "aten.mul.Tensor"),
        ("backward", "2", "aten.mm.default"),
        ("backward", "2", "aten.mm.default"),
        ("backward", "2", "aten.sum.dim_IntList"),
        ("backward", "1", "aten.tanh_backward.default"),
        ("backward", "0", "aten.mm.default"),
        ("backward", "0", "aten.sum.dim_IntList"),
        *[("optimizer", None, "aten.add_.Tensor")] * 4,
    ] == found


def test_our_own_reads_are_not_told(logdir: Path) -> None:
    """Whatever is looked at within an operation's stop, the operations are those of the training."""
    model = small()

    def look(script: Script, place: Place) -> None:
        for entry in list(script.bench.entries()):
            readable = script.bench.tensor(entry.name)
            readable.summary()
            readable.part(tuple(slice(None) for _ in entry.shape))
        torch.ones(3).sum()  # as an expression would do

    told = []
    for number, script in enumerate((Script(), Script(look))):
        with stepped(logdir, model, script=script, needs=ALL, run=str(number)) as (_, monitor):
            model(torch.ones(2, 3)).square().sum().backward()
            told.append(ops(script))
            end_step(script, monitor)
        model.zero_grad()
    assert told[0] == told[1]
    assert 20 < len(told[0])


def test_an_operation_of_a_layer_comes_before_it_is_done(logdir: Path) -> None:
    """At the stop of its own operation a layer has no output yet."""
    model = small()
    seen: list[bool] = []

    def look(script: Script, place: Place) -> None:
        if place.op == "aten.tanh.default":
            names = {entry.name for entry in script.bench.entries()}
            seen.append("output:0" in names and "output:1" not in names)

    with stepped(logdir, model, script=Script(look), needs=Needs(ops=True, keep=True)):
        model(torch.ones(2, 3))
    assert [True] == seen


# ---- on and off ----------------------------------------------------------------------------


def test_asked_for_at_a_layer_and_dropped_within_an_operation(logdir: Path) -> None:
    """It begins with the next operation, ends with this one, and leaves nothing on at the next phase."""
    model = small()

    def follow(script: Script, place: Place) -> None:
        if place.module == "1" and place.op is None:
            script.bench.need(OPS)
        if place.op == "aten.addmm.default":
            script.bench.need(NOTHING)

    script = Script(follow)
    with stepped(logdir, model, script=script, needs=Needs(layers=True)) as (_, monitor):
        model(torch.ones(2, 3))
        end_step(script, monitor)
        assert 0 == stack_length()
    assert [
        ("forward", "1", "aten.tanh.default"),
        ("forward", "2", "aten.addmm.default"),
    ] == computing(script)


def test_asked_for_in_the_middle_of_a_backward_pass(logdir: Path) -> None:
    """All operations that are still to come are told, and after the pass those of the optimizer."""
    model = small()
    optimizer = sgd(model)

    def follow(script: Script, place: Place) -> None:
        if place.phase == "backward" and place.module == "1":
            script.bench.need(Needs(ops=True, backward=True))

    script = Script(follow)
    needs = Needs(backward=True)
    with stepped(logdir, model, optimizer, script=script, needs=needs) as (_, monitor):
        model(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
        found = computing(script)
        end_step(script, monitor)
    assert [
        ("backward", "1", "aten.tanh_backward.default"),
        ("backward", "0", "aten.mm.default"),
        ("backward", "0", "aten.sum.dim_IntList"),
        *[("optimizer", None, "aten.add_.Tensor")] * 4,
    ] == found
    assert 0 == stack_length()


def test_dropped_in_the_middle_of_a_backward_pass(logdir: Path) -> None:
    """No more operations are told, and after the pass the mode is gone."""
    model = small()

    def follow(script: Script, place: Place) -> None:
        if place.op == "aten.tanh_backward.default":
            script.bench.need(PHASES)

    script = Script(follow)
    with stepped(logdir, model, script=script, needs=OPS):
        model(torch.ones(2, 3)).square().sum().backward()
        assert 0 == stack_length()
    assert ("backward", "1", "aten.tanh_backward.default") == ops(script)[-1]


def test_a_mode_of_the_users_that_is_opened_before_and_closed_after(logdir: Path) -> None:
    """It is taken off in its order, is told all that it would be told without us, and nothing of ours."""
    model = small()
    alone, together = Listener(), Listener()

    def follow(script: Script, place: Place) -> None:
        script.bench.need(OPS if place.module == "1" else ALL)
        for name in [entry.name for entry in script.bench.entries()]:
            script.bench.tensor(name).summary()

    with stepped(logdir, model, script=Script(follow)) as (script, _):
        for listener, needs in ((Listener(), NOTHING), (alone, NOTHING), (together, PHASES)):
            script.bench.need(needs)
            with listener:
                model(torch.ones(2, 3)).square().sum().backward()
            model.zero_grad()
        assert 1 == stack_length()
        script.bench.need(NOTHING)
        assert 0 == stack_length()
    # In Python's hands, tensors are detached more often.
    assert [each for each in alone.seen if "detach" not in each] == [
        each for each in together.seen if "detach" not in each
    ]


def test_a_mode_of_the_users_that_is_opened_within_the_model(logdir: Path) -> None:
    """Ours comes on inside of it and stays below."""

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = small()
            self.listener = Listener()

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            with self.listener:
                hidden: torch.Tensor = self.parts(inputs)
            return hidden.exp()

    model = Inside()

    def follow(script: Script, place: Place) -> None:
        if place.module == "parts.0":
            script.bench.need(Needs(ops=True))

    with stepped(logdir, model, script=Script(follow), needs=Needs(layers=True)) as (script, _):
        model(torch.ones(2, 3))
        count = len(model.listener.seen)
        torch.ones(1)
        assert count == len(model.listener.seen)
    assert [
        ("forward", "parts.0", "aten.addmm.default"),
        ("forward", "parts.1", "aten.tanh.default"),
        ("forward", "parts.2", "aten.addmm.default"),
        ("forward", "Inside", "aten.exp.default"),
        ("forward", None, "aten.ones.default"),
    ] == computing(script)


# ---- exceptions and threads ----------------------------------------------------------------


class Stopped(BaseException):
    """As KeyboardInterrupt: meant to end the training."""


@pytest.mark.parametrize("op", ["aten.tanh.default", "aten.tanh_backward.default", "aten.sum.default"])
def test_an_exception_on_purpose_leaves_nothing_on(op: str, logdir: Path) -> None:
    """Once the watching is over, the stack of modes is as it was, wherever the training was ended."""
    model = small()

    def leave(script: Script, place: Place) -> None:
        if place.op == op:
            raise Stopped

    def train() -> None:
        with stepped(logdir, model, script=Script(leave), needs=OPS):
            model(torch.ones(2, 3)).square().sum().backward()

    with pytest.raises(Stopped):
        train()
    assert 0 == stack_length()
    torch.ones(2).sum()


def test_an_operation_that_fails(logdir: Path) -> None:
    """Its error reaches the user; a mode that is not wanted any more is off as soon as the model is left."""
    model = small()

    def follow(script: Script, place: Place) -> None:
        if place.op == "aten.addmm.default":
            script.bench.need(NOTHING)

    with stepped(logdir, model, script=Script(follow), needs=OPS):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.ones(2, 4))
        assert 0 == stack_length()


def test_other_threads_are_not_followed(logdir: Path) -> None:
    """Their operations are their own."""
    model = small()
    lengths: list[int] = []

    def other() -> None:
        lengths.append(stack_length())
        mlp()(torch.ones(2, 6)).sum().backward()

    with stepped(logdir, model, needs=OPS) as (script, _):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert [] == ops(script)
        assert 1 == stack_length()
    assert [0] == lengths


def test_a_compiled_function_beside_the_model(logdir: Path) -> None:
    """It computes what it would, though its operations may not be told one by one."""
    model = small()

    def penalty(values: torch.Tensor) -> torch.Tensor:
        return functional.softplus(values).sin().sum()

    inputs = torch.ones(2, 3)
    expected = torch.compile(penalty, backend="aot_eager")(model(inputs))
    torch._dynamo.reset()
    fast = torch.compile(penalty, backend="aot_eager")
    with stepped(logdir, model, needs=OPS) as (script, monitor):
        for _ in range(2):
            loss = fast(model(inputs))
            assert expected.item() == loss.item()
            loss.backward()
        end_step(script, monitor)
