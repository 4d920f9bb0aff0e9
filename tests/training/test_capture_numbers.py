"""The recorded numbers are the true ones: recomputed by hand from copies of the tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.core.stats.packed import Summary
from tests.support.loops import OF_PARAMETERS, Recorded, cnn, fit, mlp, pictures, recorded

RELATIVE = 1e-12


def assert_summary(expected: torch.Tensor, actual: Summary) -> None:
    """Against NumPy in double precision."""
    values = expected.detach().to(torch.float64).numpy().ravel()
    assert (values.size, int((values == 0).sum())) == (actual.count, actual.zeros)
    assert (0, 0, 0, 0) == (actual.nan, actual.pos_inf, actual.neg_inf, actual.overflow)
    assert (values.min(), values.max()) == (actual.min, actual.max)
    scale = float(np.abs(values).sum())
    assert math.isclose(math.fsum(values), actual.sum, abs_tol=RELATIVE * scale)
    assert math.isclose(float(np.linalg.norm(values)), actual.norm, rel_tol=RELATIVE, abs_tol=0.0)
    assert values.size == int(actual.counts.sum())


class Truth:
    """Copies of everything that a loop sees, taken by hand."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.tensors: dict[Kind, list[dict[str, torch.Tensor]]] = {kind: [] for kind in Kind}
        self.norms: list[float] = []
        self.losses: list[float] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of a Sequential: layer by layer, in place or not."""
        outputs = {}
        with torch.no_grad():
            hidden = inputs
            for name, layer in self.model.named_children():
                hidden = layer(hidden.clone())
                outputs[name] = hidden.clone()
        self.tensors[Kind.ACTIVATION].append(outputs)
        scores: torch.Tensor = self.model(inputs)
        return scores

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        before = self.weights()
        gradients = {
            name: each.grad.clone() for name, each in self.model.named_parameters() if each.grad is not None
        }
        squares = [gradient.double().square().sum().item() for gradient in gradients.values()]
        self.norms.append(math.sqrt(math.fsum(squares)))
        optimizer.step()
        after = self.weights()
        self.tensors[Kind.WEIGHT].append(after)
        self.tensors[Kind.GRADIENT].append(gradients)
        self.tensors[Kind.UPDATE].append({name: after[name] - before[name] for name in after})

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: each.detach().clone() for name, each in self.model.named_parameters()}


def train(truth: Truth, optimizer: torch.optim.Optimizer, monitor: nd.Monitor, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(truth.forward(torch.randn(8, 6)), torch.randint(3, (8,)))
        loss.backward()  # type: ignore[no-untyped-call]
        truth.step(optimizer)
        truth.losses.append(loss.item())
        monitor.step(loss=loss)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_all_statistics_of_a_small_model(every: int, logdir: Path) -> None:
    """Weights, gradients, updates and activations of every sampled step: all numbers, and no step more."""
    truth = Truth(mlp())
    optimizer = torch.optim.SGD(truth.model.parameters(), lr=0.1, momentum=0.9)
    found = recorded(
        logdir, truth.model, optimizer, lambda monitor: train(truth, optimizer, monitor, 7), every=every
    )
    sampled = list(range(0, 7, every))
    for kind in (*OF_PARAMETERS, Kind.ACTIVATION):
        assert truth.tensors[kind][0].keys() == found.names(kind)
        for name in truth.tensors[kind][0]:
            samples = found.samples(kind, name)
            assert sampled == list(samples)
            for step, summary in samples.items():
                assert_summary(truth.tensors[kind][step][name], summary)


@pytest.mark.parametrize("every", [1, 5])
def test_scalars_of_every_step(every: int, logdir: Path) -> None:
    """Loss, gradient norm, learning rate and batch size are there for every step, sampled or not."""
    truth = Truth(mlp())
    optimizer = torch.optim.Adam(truth.model.parameters(), lr=0.01)
    found = recorded(
        logdir, truth.model, optimizer, lambda monitor: train(truth, optimizer, monitor, 6), every=every
    )
    assert list(range(6)) == found.steps
    assert truth.losses == found.series("loss")
    assert truth.norms == pytest.approx(found.series("gradient_norm"), rel=RELATIVE, abs=0.0)
    assert [0.0] * 6 == found.series("nonfinite_gradients")
    assert [0.01] * 6 == found.series("lr/0")
    assert [8.0] * 6 == found.series("batch_size")


def test_what_is_logged_after_the_last_step_belongs_to_it(logdir: Path) -> None:
    """As the result of a last evaluation does; without any step it belongs nowhere."""

    def steps(monitor: nd.Monitor) -> None:
        monitor.step(loss=2.0)
        monitor.step(loss=1.0)
        monitor.log(val_loss=torch.tensor(4.0, requires_grad=True), accuracy=0.5)

    found = recorded(logdir, mlp(), None, steps)
    assert {0: 2.0, 1: 1.0} == found.scalars["loss"]
    assert [{1: 4.0}, {1: 0.5}] == [found.scalars[f"scalar/{name}"] for name in ("val_loss", "accuracy")]
    assert [0, 1] == list(found.scalars["time/step"])


def test_scalars_of_every_shape(logdir: Path) -> None:
    """Numbers, tensors and arrays are taken as they come, of several values the mean; log() adds some."""
    model = mlp()
    given: dict[str, Any] = {
        "number": 3, "single": torch.tensor([[0.25]], dtype=torch.float64), "flag": True,
        "numpy": np.float32(0.5), "array": np.array([1.0, 2.0]), "many": torch.tensor([1, 2, 6]),
        "odd": float("nan"), "big": math.inf, "half": torch.tensor(1.5, dtype=torch.bfloat16),
    }  # fmt: skip

    def steps(monitor: nd.Monitor) -> None:
        monitor.log(early=1.0, number=9)
        monitor.step(loss=2, **given)
        monitor.step()
        monitor.log(late=torch.tensor(4.0, requires_grad=True))
        monitor.step(loss=np.float64(0.5))

    found = recorded(logdir, model, None, steps)
    assert {0: 2.0, 2: 0.5} == found.scalars["loss"]
    expected = {
        "number": 3.0, "single": 0.25, "flag": 1.0, "numpy": 0.5, "array": 1.5, "many": 3.0,
        "big": math.inf, "half": 1.5, "early": 1.0,
    }  # fmt: skip
    assert expected == {name: found.scalars[f"scalar/{name}"][0] for name in expected}
    assert math.isnan(found.scalars["scalar/odd"][0])
    assert {2: 4.0} == found.scalars["scalar/late"]


def test_a_scalar_that_is_no_number_costs_nothing_else(logdir: Path) -> None:
    """One sentence about it; the step, its loss and its other scalars are recorded."""
    from tests.support.loops import our_warnings

    with our_warnings() as told, nd.watch(mlp(), logdir=logdir, run="run", memory=False) as monitor:
        for step in range(3):
            monitor.step(loss=step, name="three", good=7, worse=torch.tensor(1 + 2j), empty=None)
    found = Recorded(logdir / "run")
    assert [0, 1, 2] == found.steps
    assert [0.0, 1.0, 2.0] == found.series("loss")
    assert [7.0] * 3 == found.series("scalar/good")
    assert 2 >= len(told) >= 1
    assert "scalar/name" in told[0]


def test_learning_rates_of_all_groups_and_optimizers(logdir: Path) -> None:
    """Each group of each optimizer has its own, and a scheduler's changes are seen."""
    model = mlp()
    first = torch.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}], lr=0.1
    )
    second = torch.optim.AdamW(model[4].parameters(), lr=torch.tensor(0.25))
    schedule = torch.optim.lr_scheduler.ExponentialLR(first, 0.5)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            model(torch.randn(2, 6)).sum().backward()
            first.step()
            second.step()
            monitor.step()
            schedule.step()

    found = recorded(logdir, model, [first, second], steps)
    assert [0.5, 0.25, 0.125] == found.series("lr/0")
    assert [0.1, 0.05, 0.025] == pytest.approx(found.series("lr/1"))
    assert [0.25] * 3 == found.series("lr/2")


def test_tensors_that_the_user_hands_in(logdir: Path) -> None:
    """monitor.tensor() takes torch tensors, arrays and lists, of any type, layout and step."""
    model, values = mlp(), torch.randn(5, 7)

    def steps(monitor: nd.Monitor) -> None:
        monitor.tensor("plain", values)
        monitor.tensor("turned", values.t())
        monitor.tensor("array", values.numpy()[:, ::2])
        monitor.tensor("list", [[1, 0], [0, -4]])
        monitor.tensor("graph", (values.requires_grad_() * 2))
        monitor.step()
        monitor.tensor("twice", torch.tensor([1.0]))
        monitor.tensor("twice", torch.tensor([3.0, 0.0]))
        monitor.step()

    found = recorded(logdir, model, None, steps, every=10)
    values = values.detach()
    assert_summary(values, found.samples(Kind.TENSOR, "plain")[0])
    assert_summary(values, found.samples(Kind.TENSOR, "turned")[0])
    assert_summary(values[:, ::2], found.samples(Kind.TENSOR, "array")[0])
    assert_summary(torch.tensor([[1.0, 0], [0, -4]]), found.samples(Kind.TENSOR, "list")[0])
    assert_summary(values * 2, found.samples(Kind.TENSOR, "graph")[0])
    assert_summary(torch.tensor([1.0, 3.0, 0.0]), found.samples(Kind.TENSOR, "twice")[1])


def test_images_reach_tensorboard(logdir: Path) -> None:
    """A picture of either order of dimensions is an image summary in the same file."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    def steps(monitor: nd.Monitor) -> None:
        monitor.image("map", torch.rand(5, 4))
        monitor.step()
        monitor.image("photo", np.zeros((3, 6, 8), np.uint8))
        monitor.step()

    found = recorded(logdir, mlp(), None, steps)
    images = {
        value.tag: (event.step, value.tensor.string_val[:2])
        for event in EventFileLoader(str(found.run.files[0])).Load()
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "images"
    }
    assert {"map": (0, [b"4", b"5"]), "photo": (1, [b"8", b"6"])} == images


def test_times_add_up(logdir: Path) -> None:
    """A step's parts have their names, and are together no longer than the step."""
    model = cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = recorded(
        logdir, model, optimizer, lambda monitor: fit(model, optimizer, pictures, monitor=monitor)
    )
    parts = ("time/data", "time/forward", "time/backward", "time/optimizer")
    for step in found.steps:
        times = [found.scalars[part][step] for part in parts]
        assert min(times) > 0
        assert sum(times) <= found.scalars["time/step"][step]


def test_times_of_nested_phases_are_counted_once(logdir: Path) -> None:
    """Forward and backward inside an optimizer's closure are not the optimizer's time, too."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    inputs = torch.randn(64, 6)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(inputs).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(5):
            monitor.step(loss=optimizer.step(closure))

    found = recorded(logdir, model, optimizer, steps)
    parts = ("time/data", "time/forward", "time/backward", "time/optimizer")
    for step in found.steps:
        assert sum(found.scalars[part][step] for part in parts) <= found.scalars["time/step"][step]
