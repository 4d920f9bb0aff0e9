"""Training loops as people write them: what they leave is complete, and nothing warns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import MLP_LAYERS, MLP_PARAMETERS, OF_PARAMETERS, assert_complete, fit, mlp, recorded


def true_norm(parameters: Any) -> float:
    return math.sqrt(math.fsum(each.grad.double().square().sum().item() for each in parameters))


def back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def test_several_optimizers(logdir: Path) -> None:
    """The norm is over the gradients of both, and each moves its own parameters."""
    model = mlp()
    optimizers = [
        torch.optim.SGD(model[:2].parameters(), lr=0.1),
        torch.optim.Adam(model[2:].parameters(), lr=0.01),
    ]
    norms = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(4):
            model.zero_grad()
            loss = model(torch.randn(8, 6)).square().mean()
            back(loss)
            norms.append(true_norm(model.parameters()))
            for optimizer in optimizers:
                optimizer.step()
            monitor.step(loss)

    found = recorded(logdir, model, optimizers, steps)
    assert_complete(found, [0, 1, 2, 3])
    assert norms == pytest.approx(found.series("gradient_norm"), rel=1e-12)
    assert ["SGD", "Adam"] == found.info["optimizers"]


def test_gan(logdir: Path) -> None:
    """Two models and two optimizers, the discriminator called on real and on generated pictures."""
    generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
    discriminator = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
    loss = nn.BCEWithLogitsLoss()
    real, generated = torch.ones(5, 1), torch.zeros(5, 1)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            fake = generator(torch.randn(5, 3))
            of_discriminator.zero_grad()
            loss_d = loss(discriminator(torch.randn(5, 4)), real) + loss(
                discriminator(fake.detach()), generated
            )
            back(loss_d)
            of_discriminator.step()
            of_generator.zero_grad()
            loss_g = loss(discriminator(fake), real)
            back(loss_g)
            of_generator.step()
            monitor.step(loss=loss_d + loss_g, g=loss_g, d=loss_d)

    models = {"G": generator, "D": discriminator}
    found = recorded(logdir, models, [of_generator, of_discriminator], steps)
    assert {"G/0", "G/1", "G/2", "D/0", "D/1", "D/2"} == found.names(Kind.ACTIVATION)
    assert 5 * 8 == found.samples(Kind.ACTIVATION, "G/0")[0].count
    assert 3 * 5 * 8 == found.samples(Kind.ACTIVATION, "D/0")[0].count
    names = {f"{prefix}/{name}" for prefix in "GD" for name in ("0.weight", "0.bias", "2.weight", "2.bias")}
    for kind in OF_PARAMETERS:
        assert names == found.names(kind)
        assert all([0, 1, 2] == list(found.samples(kind, name)) for name in names)
    assert found.series("scalar/g") == pytest.approx(
        [a - b for a, b in zip(found.series("loss"), found.series("scalar/d"), strict=True)], rel=1e-5
    )
    assert [5.0] * 3 == found.series("batch_size")


def test_lbfgs_and_its_closure(logdir: Path) -> None:
    """The closure calls the model many times a step; weights move once, and the last gradients count."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    inputs, labels = torch.randn(8, 6), torch.randint(3, (8,))
    calls: list[float] = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        back(loss)
        calls.append(true_norm(model.parameters()))
        return loss

    ends = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            loss = optimizer.step(closure)
            ends.append(len(calls))
            monitor.step(loss=loss)

    found = recorded(logdir, model, optimizer, steps)
    assert_complete(found, [0, 1, 2])
    assert [calls[end - 1] for end in ends] == pytest.approx(found.series("gradient_norm"), rel=1e-12)
    assert 8.0 * len(calls) == sum(found.series("batch_size"))


@pytest.mark.parametrize("every", [1, 4])
def test_gradient_accumulation(every: int, logdir: Path) -> None:
    """The optimizer steps in every fourth batch, whose gradients are those of all four."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = {}

    def steps(monitor: nd.Monitor) -> None:
        for batch in range(12):
            loss = model(torch.randn(8, 6)).square().mean() / 4
            back(loss)
            if batch % 4 == 3:
                norms[batch] = true_norm(model.parameters())
                optimizer.step()
                optimizer.zero_grad()
            monitor.step(loss)

    found = recorded(logdir, model, optimizer, steps, every=every)
    assert list(range(12)) == found.steps
    assert norms == pytest.approx(found.scalars["gradient_norm"], rel=1e-12)
    for kind in (Kind.GRADIENT, Kind.UPDATE):
        for name in MLP_PARAMETERS:
            assert [3, 7, 11] == list(found.samples(kind, name))
    sampled = range(0, 12, every)
    assert all({*sampled} <= {*found.samples(Kind.ACTIVATION, name)} for name in MLP_LAYERS)


class Overflowing(torch.autograd.Function):
    """Passes values on; its gradient is infinite when it is told so."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, is_infinite: bool) -> torch.Tensor:
        context.is_infinite = is_infinite
        return values.clone()

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0] * (math.inf if context.is_infinite else 1.0), None


def test_mixed_precision_with_a_skipped_step(logdir: Path) -> None:
    """Under autocast activations are bfloat16; a step that the scaler skips has non-finite gradients."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    norms = []

    def steps(monitor: nd.Monitor) -> None:
        for batch in range(4):
            optimizer.zero_grad()
            with torch.amp.autocast("cpu", torch.bfloat16):
                loss = Overflowing.apply(model(torch.randn(8, 6)), batch == 2).square().mean()
            back(scaler.scale(loss))
            before = model[0].weight.detach().clone()
            scaler.step(optimizer)
            scaler.update()
            norms.append(true_norm(model.parameters()))
            assert torch.equal(before, model[0].weight) == (batch == 2)
            monitor.step(loss)

    found = recorded(logdir, model, optimizer, steps)
    bad = found.series("nonfinite_gradients")
    assert [False, False, True, False] == [count > 0 for count in bad]
    assert [0, 1, 3] == list(found.scalars["gradient_norm"])
    assert [norms[0], norms[1], norms[3]] == pytest.approx(found.series("gradient_norm"), rel=1e-12)
    assert [0, 1, 3] == list(found.samples(Kind.UPDATE, "0.weight"))
    assert bad[2] == sum(found.samples(Kind.GRADIENT, name)[2].nonfinite for name in MLP_PARAMETERS)
    bins = found.samples(Kind.ACTIVATION, "0")[0]
    assert 8 * 16 == bins.count


def test_gradient_clipping(logdir: Path) -> None:
    """The norm is that of what the optimizer sees: clipped."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 6)).square().sum() * 100
            back(loss)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            monitor.step(loss)

    found = recorded(logdir, model, optimizer, steps)
    assert_complete(found, [0, 1, 2])
    assert [0.5] * 3 == pytest.approx(found.series("gradient_norm"), rel=1e-5)


def test_zero_grad_directly_after_the_step(logdir: Path) -> None:
    """Gradients that are gone at the end of the step were seen before."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            loss = model(torch.randn(8, 6)).square().mean()
            back(loss)
            norms.append(true_norm(model.parameters()))
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss)

    found = recorded(logdir, model, optimizer, steps)
    assert_complete(found, [0, 1, 2])
    assert norms == pytest.approx(found.series("gradient_norm"), rel=1e-12)


@pytest.mark.parametrize("every", [1, 3])
def test_the_optimizer_is_found_by_itself(every: int, logdir: Path) -> None:
    """Without an optimizer given, the one that moves the model's parameters is watched when it steps."""
    model, other = mlp(), mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stranger = torch.optim.SGD(other.parameters(), lr=0.7)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(6):
            fit(other, stranger, steps=1)
            fit(model, optimizer, steps=1, monitor=monitor)

    found = recorded(logdir, model, None, steps, every=every)
    assert_complete(found, list(range(0, 6, every)))
    assert list(range(6)) == list(found.scalars["gradient_norm"])
    assert [0.1] * 6 == found.series("lr/0")
    assert "lr/1" not in found.scalars


@pytest.mark.parametrize("every", [1, 3])
def test_a_hand_written_optimizer(every: int, logdir: Path) -> None:
    """Gradients, weights and updates are taken at the end of the step, also when it writes through .data."""
    model = mlp()
    norms, moved = [], []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(6):
            model.zero_grad()
            loss = model(torch.randn(8, 6)).square().mean()
            back(loss)
            norms.append(true_norm(model.parameters()))
            before = model[0].weight.detach().clone()
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.data -= 0.1 * parameter.grad
            moved.append((model[0].weight.detach() - before).double().norm().item())
            monitor.step(loss)

    found = recorded(logdir, model, None, steps, every=every)
    sampled = list(range(0, 6, every))
    assert_complete(found, sampled)
    assert norms == pytest.approx(found.series("gradient_norm"), rel=1e-12)
    updates = found.samples(Kind.UPDATE, "0.weight")
    assert {step: moved[step] for step in sampled} == pytest.approx(
        {step: summary.norm for step, summary in updates.items()}, rel=1e-12
    )


def test_an_old_optimizer_that_writes_through_data(logdir: Path) -> None:
    """A subclass of torch's Optimizer whose writes torch does not count: its updates are right."""

    class Plain(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                parameter.data.add_(parameter.grad, alpha=-0.1)

    model = mlp()
    optimizer = Plain(model.parameters())
    moved = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(5):
            before = model[0].weight.detach().clone()
            fit(model, optimizer, steps=1)
            moved.append((model[0].weight.detach() - before).double().norm().item())
            monitor.step()

    found = recorded(logdir, model, optimizer, steps, every=2)
    updates = found.samples(Kind.UPDATE, "0.weight")
    assert {0: moved[0], 2: moved[2], 4: moved[4]} == pytest.approx(
        {step: summary.norm for step, summary in updates.items()}, rel=1e-12
    )


def test_several_backward_calls_and_a_kept_graph(logdir: Path) -> None:
    """Two losses through one graph, one after the other, and a gradient of a gradient."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            inputs = torch.randn(8, 6, requires_grad=True)
            output = model(inputs)
            loss = output.square().mean()
            loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
            output.abs().mean().backward(retain_graph=True)
            (slope,) = torch.autograd.grad(output.sum(), inputs, create_graph=True)
            back(slope.square().mean())
            norms.append(true_norm(model.parameters()))
            optimizer.step()
            monitor.step(loss)

    found = recorded(logdir, model, optimizer, steps)
    assert_complete(found, [0, 1, 2])
    assert norms == pytest.approx(found.series("gradient_norm"), rel=1e-12)
    assert 8 * 16 == found.samples(Kind.ACTIVATION, "0")[0].count


def test_evaluation_between_steps_is_not_recorded(logdir: Path) -> None:
    """What runs under no_grad or inference_mode is no part of the training's activations or batches."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            fit(model, optimizer, steps=1)
            model.eval()
            with torch.no_grad():
                model(torch.randn(100, 6))
            with torch.inference_mode():
                model(torch.randn(100, 6))
            model.train()
            monitor.step()

    found = recorded(logdir, model, optimizer, steps)
    assert [8.0] * 3 == found.series("batch_size")
    assert [8 * 16] * 3 == [each.count for each in found.samples(Kind.ACTIVATION, "0").values()]


class Wrapper(torch.optim.Optimizer):
    """Looks like an optimizer to isinstance, and hands everything on to another one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer  # without super().__init__, as in Accelerate

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)


def test_a_wrapped_optimizer(logdir: Path) -> None:
    """The one inside is watched."""
    model = mlp()
    optimizer = Wrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    found = recorded(logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor))
    assert_complete(found, list(range(6)))
    assert ["SGD"] == found.info["optimizers"]


def test_a_group_that_is_added_later(logdir: Path) -> None:
    """Parameters that join the optimizer are recorded from then on."""
    model = mlp()
    optimizer = torch.optim.SGD(model[:2].parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        fit(model, optimizer, steps=2, monitor=monitor)
        optimizer.add_param_group({"params": model[2:].parameters(), "lr": 0.2})
        fit(model, optimizer, steps=2, monitor=monitor)

    found = recorded(logdir, model, optimizer, steps)
    assert [0, 1, 2, 3] == list(found.samples(Kind.UPDATE, "0.weight"))
    assert [2, 3] == list(found.samples(Kind.UPDATE, "4.weight"))
    assert {2: 0.2, 3: 0.2} == found.scalars["lr/1"]
    assert [0, 2, 3] == list(found.samples(Kind.WEIGHT, "4.weight"))


def test_frozen_parameters_and_one_unfrozen_later(logdir: Path) -> None:
    """A frozen weight has no gradient, and no update that is not zero, until it is unfrozen."""
    model = mlp()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        fit(model, optimizer, steps=2, monitor=monitor)
        model[0].requires_grad_(True)
        fit(model, optimizer, steps=2, monitor=monitor)

    found = recorded(logdir, model, optimizer, steps)
    assert [2, 3] == list(found.samples(Kind.GRADIENT, "0.weight"))
    updates = found.samples(Kind.UPDATE, "0.weight")
    assert [True, True, False, False] == [update.zeros == update.count for update in updates.values()]
    assert [0, 1, 2, 3] == list(found.samples(Kind.GRADIENT, "4.weight"))


def test_weights_that_no_optimizer_moves(logdir: Path) -> None:
    """They are recorded once, and again when somebody changes them."""
    model = mlp()
    optimizer = torch.optim.SGD(model[4].parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        fit(model, optimizer, steps=3, monitor=monitor)
        with torch.no_grad():
            model[0].weight.fill_(0.5)
        fit(model, optimizer, steps=2, monitor=monitor)

    found = recorded(logdir, model, optimizer, steps)
    weights = found.samples(Kind.WEIGHT, "0.weight")
    assert [0, 3] == list(weights)
    assert (0.5, 0.5) == (weights[3].min, weights[3].max)
    assert [0] == list(found.samples(Kind.WEIGHT, "2.weight"))
