"""What is told of backward passes: the loss nobody told, gradients that are kept, the scale of the loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import Recorded, mlp, no_warnings
from tests.support.probed import Probed, sgd

KEPT = "probe/gradients_kept"
STEPS = 6

# Trains for one step, numbered from 0.
Step = Callable[[int], object]


def watched(
    logdir: Path,
    models: Any,
    optimizers: Any,
    step: Step,
    *,
    steps: int = STEPS,
    way: str = "host",
    **options: Any,
) -> Probed:
    """Steps of which nobody tells the loss."""
    options = {"every": 1, "memory": False, "strict": True, "on_finding": "ignore", **options}
    with no_warnings(), nd.watch(models, optimizers, logdir=logdir, run=way, **options) as monitor:
        if way == "device":
            monitor._adapter._reader.host_kinds = set()  # type: ignore[attr-defined]
        for number in range(steps):
            step(number)
            monitor.step()
    return Probed(logdir / way, Recorded(logdir / way))


def loss_of(model: nn.Module) -> Tensor:
    loss: Tensor = model(torch.randn(8, 6)).square().mean()
    return loss


def backward(loss: Tensor) -> None:
    loss.backward()


# ---- the loss ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["host", "device"])
def test_the_loss_that_nobody_tells(way: str, logdir: Path) -> None:
    """What is differentiated in a step, added up; a loss that is no function of torch is told as a fact."""
    model = mlp()
    optimizer = sgd(model)
    expected = []

    def step(number: int) -> None:
        optimizer.zero_grad()
        losses = [loss_of(model) / 2 for _ in range(2)]
        backward(losses[0])
        torch.autograd.backward([losses[1], 2 * losses[1].detach() + 0 * losses[1]])
        optimizer.step()
        expected.append(float(losses[0].detach() + 3 * losses[1].detach()))

    found = watched(logdir, model, optimizer, step, way=way)
    assert expected == pytest.approx(found.recorded.series("loss"), rel=1e-6)
    assert [(0, {"value_name": "backward"})] == found.facts["backward-loss"]


def test_a_loss_function_tells_more_than_backward(logdir: Path) -> None:
    """With a loss call there is no need for the fact."""
    model = mlp()
    optimizer = sgd(model)

    def step(number: int) -> None:
        optimizer.zero_grad()
        backward(functional.cross_entropy(model(torch.randn(8, 6)), torch.zeros(8).long()))
        optimizer.step()

    found = watched(logdir, model, optimizer, step)
    assert found.scalar("loss") == pytest.approx(found.scalar("probe/loss/0/value"))
    assert "backward-loss" not in found.facts


@pytest.mark.parametrize("way", ["host", "device"])
def test_who_tells_the_loss_is_believed(way: str, logdir: Path) -> None:
    """Also where it is not the root of backward, from the first step on."""
    model = mlp()
    with nd.watch(model, logdir=logdir, run=way, memory=False, strict=True, on_finding="ignore") as monitor:
        if way == "device":
            monitor._adapter._reader.host_kinds = set()  # type: ignore[attr-defined]
        for number in range(4):
            backward(loss_of(model))
            monitor.step(torch.tensor(float(number)) if number < 3 else None)
    found = Probed(logdir / way, Recorded(logdir / way))
    assert {0: 0.0, 1: 1.0, 2: 2.0} == found.scalar("loss")
    assert "backward-loss" not in found.facts


def test_of_a_closure_the_first_loss_counts(logdir: Path) -> None:
    """LBFGS asks again and again; where the step began is what others call its loss."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    began = []

    def step(number: int) -> None:
        inputs = torch.randn(8, 6)
        losses = []

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(inputs).square().mean()
            backward(loss)
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
        began.append(losses[0])

    found = watched(logdir, model, optimizer, step)
    assert began == found.recorded.series("loss")
    assert {0.0} == set(found.scalar(KEPT).values())


def test_roots_that_are_no_loss(logdir: Path) -> None:
    """A vector with its own gradient is not a number to be watched."""
    model = mlp()

    def step(number: int) -> None:
        output = model(torch.randn(8, 6))
        output.backward(torch.ones_like(output))

    found = watched(logdir, model, None, step)
    assert {} == found.scalar("loss")
    assert "backward-loss" not in found.facts


# ---- gradients that are kept ---------------------------------------------------------------

Clear = Callable[[nn.Module, torch.optim.Optimizer], object]


def through_data(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for each in model.parameters():
        if each.grad is not None:
            each.grad.data.zero_()


CLEARS: dict[str, Clear] = {
    "optimizer": lambda model, optimizer: optimizer.zero_grad(),
    "to zero": lambda model, optimizer: optimizer.zero_grad(set_to_none=False),
    "model": lambda model, optimizer: model.zero_grad(),
    "through data": through_data,
}
PLACES = ("before forward", "before backward", "after step")


@pytest.mark.parametrize("way", ["host", "device"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("clear", CLEARS)
def test_cleared_gradients(clear: str, place: str, way: str, logdir: Path) -> None:
    """Wherever it is done, and however."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())

    def step(number: int) -> None:
        for at in PLACES:
            if at == "before backward":
                loss = loss_of(model)
            elif at == "after step":
                backward(loss)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            if place == at:
                CLEARS[clear](model, optimizer)

    found = watched(logdir, model, optimizer, step, way=way)
    assert dict.fromkeys(range(1, STEPS), 0.0) == found.scalar(KEPT)


@pytest.mark.parametrize("way", ["host", "device"])
def test_kept_gradients(way: str, logdir: Path) -> None:
    """zero_grad is forgotten: from the second step on."""
    model = mlp()
    optimizer = sgd(model)

    def step(number: int) -> None:
        backward(loss_of(model))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    found = watched(logdir, model, optimizer, step, way=way)
    assert dict.fromkeys(range(1, STEPS), 1.0) == found.scalar(KEPT)


@pytest.mark.parametrize("is_cleared", [True, False])
def test_steps_that_nobody_looks_at(is_cleared: bool, logdir: Path) -> None:
    """After the first 32 steps the judgement comes with samples, and is as sure."""
    model = mlp()
    optimizer = sgd(model)

    def step(number: int) -> None:
        if is_cleared:
            optimizer.zero_grad()
        backward(loss_of(model))
        optimizer.step()

    found = watched(logdir, model, optimizer, step, every=8, steps=60)
    assert dict.fromkeys([*range(1, 32), 32, 40, 48, 56], 0.0 if is_cleared else 1.0) == found.scalar(KEPT)


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("to_none", [True, False])
def test_accumulated_gradients(to_none: bool, every: int, logdir: Path) -> None:
    """Several batches between two steps of the optimizer, in one step of the monitor or in several."""
    for per_step in (True, False):
        model = mlp()
        optimizer = sgd(model)

        def step(
            number: int, model: nn.Module = model, optimizer: Any = optimizer, whole: bool = per_step
        ) -> None:
            for batch in range(4) if whole else [number]:
                backward(loss_of(model) / 4)
                if batch % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=to_none)

        found = watched(logdir, model, optimizer, step, every=every, steps=80, way=f"whole {per_step}")
        assert {0.0} == set(found.scalar(KEPT).values())
        assert len(found.scalar(KEPT)) >= (32 if per_step else 7)


@pytest.mark.parametrize("way", ["host", "device"])
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("forgets", ["nothing", "the discriminator"])
@pytest.mark.parametrize("every", [1, 9])
def test_two_that_play_against_each_other(
    every: int, forgets: str, to_none: bool, way: str, logdir: Path
) -> None:
    """The generator's loss leaves gradients in the discriminator, which are cleared before its own turn."""
    generator, discriminator = nn.Linear(4, 6), mlp()
    both = {"G": sgd(generator), "D": sgd(discriminator)}

    def step(number: int) -> None:
        if forgets == "nothing":
            both["D"].zero_grad(set_to_none=to_none)
        fake = generator(torch.randn(8, 4))
        backward(functional.softplus(-discriminator(torch.randn(8, 6))).mean())
        backward(functional.softplus(discriminator(fake.detach())).mean())
        both["D"].step()
        both["G"].zero_grad(set_to_none=to_none)
        backward(functional.softplus(-discriminator(fake)).mean())
        both["G"].step()

    models = {"G": generator, "D": discriminator}
    found = watched(logdir, models, both, step, every=every, steps=50, way=way)
    kept = found.scalar(KEPT)
    assert {0.0 if forgets == "nothing" else 1.0} == set(kept.values())
    assert len(kept) >= 31  # later, with looks far apart, forgetting cannot be told from accumulation


def test_two_losses_of_one_step(logdir: Path) -> None:
    """Backward through the same graph again adds to gradients that are new."""
    model = mlp()
    optimizer = sgd(model)

    def step(number: int) -> None:
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(model)
        loss.backward(retain_graph=True)
        backward(loss * 0.1)
        optimizer.step()

    found = watched(logdir, model, optimizer, step)
    assert dict.fromkeys(range(1, STEPS), 0.0) == found.scalar(KEPT)


def test_a_look_at_the_inputs_between_two_steps(logdir: Path) -> None:
    """A saliency map before zero_grad: it finds the old gradients, which are cleared in time."""
    model = mlp()
    optimizer = sgd(model)

    def step(number: int) -> None:
        inputs = torch.randn(8, 6, requires_grad=True)
        backward(model(inputs).sum())
        optimizer.zero_grad()
        backward(loss_of(model))
        optimizer.step()

    found = watched(logdir, model, optimizer, step)
    assert dict.fromkeys(range(1, STEPS), 0.0) == found.scalar(KEPT)


def test_gradients_that_are_zero_are_not_kept(logdir: Path) -> None:
    """There is nothing in them that could be added."""
    model = mlp()
    optimizer = sgd(model)

    def step(number: int) -> None:
        backward(loss_of(model) * 0)
        optimizer.step()

    found = watched(logdir, model, optimizer, step)
    assert dict.fromkeys(range(1, STEPS), 0.0) == found.scalar(KEPT)


def test_an_optimizer_of_something_else(logdir: Path) -> None:
    """What becomes of gradients outside of the watched models is not told."""
    model, other = mlp(), mlp()
    optimizer = sgd(other)

    def step(number: int) -> None:
        backward(loss_of(other))
        optimizer.step()

    assert {} == watched(logdir, model, None, step).scalar(KEPT)


def test_an_optimizer_for_every_step(logdir: Path) -> None:
    """It steps once only: there is nothing to judge, and nothing that grows."""
    model = mlp()

    def step(number: int) -> None:
        model.zero_grad()
        backward(loss_of(model))
        sgd(model).step()

    assert set(watched(logdir, model, None, step, steps=40, every=100).scalar(KEPT).values()) <= {0.0}


# ---- the scale of the loss -----------------------------------------------------------------


@pytest.mark.parametrize("way", ["host", "device"])
@pytest.mark.parametrize("fused", [False, True])
def test_the_scale_of_the_loss(fused: bool, way: str, logdir: Path) -> None:
    """It is halved after a step that was skipped; the loss is told without it."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=fused)
    scaler = GradScaler("cpu", init_scale=1024.0)
    expected = []

    def step(number: int) -> None:
        optimizer.zero_grad()
        loss = loss_of(model) * (float("inf") if number == 2 else 1.0)
        backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
        expected.append(loss.item())

    found = watched(logdir, model, optimizer, step, way=way)
    assert [1024.0, 1024.0, 1024.0, 512.0, 512.0, 512.0] == found.recorded.series("probe/loss_scale")
    assert [0.0, 0.0, 1.0, 0.0, 0.0, 0.0] == found.recorded.series("probe/loss_scale_skipped")
    assert expected == pytest.approx(found.recorded.series("loss"), rel=1e-6)
    assert {0.0} == set(found.scalar(KEPT).values())


def test_a_scaler_that_is_switched_off(logdir: Path) -> None:
    """It has no scale."""
    model = mlp()
    optimizer = sgd(model)
    scaler = GradScaler("cpu", enabled=False)

    def step(number: int) -> None:
        optimizer.zero_grad()
        backward(scaler.scale(loss_of(model)))
        scaler.step(optimizer)
        scaler.update()

    found = watched(logdir, model, optimizer, step)
    assert {} == found.scalar("probe/loss_scale")
    assert STEPS == len(found.scalar("loss"))


def test_nothing_is_left_behind(logdir: Path) -> None:
    """Functions have their own code again when the last monitor closes."""
    functions: list[Any] = [torch.autograd.backward, GradScaler.step, GradScaler.scale, functional.nll_loss]
    codes = [each.__code__ for each in functions]
    model = mlp()
    with nd.watch(model, logdir=logdir, run="run", memory=False):
        assert not any(each.__code__ is code for each, code in zip(functions, codes, strict=True))
    assert codes == [each.__code__ for each in functions]
    assert all(each.__code__ is code for each, code in zip(functions, codes, strict=True))
