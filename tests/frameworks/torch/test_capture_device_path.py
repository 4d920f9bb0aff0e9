"""The way of tensors on an accelerator, taken by tensors in host memory: the same records, only later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.device.queue import SentParcel
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries
from tests.support.loops import MODELS, Recorded, fit, mlp, no_warnings

RELATIVE = 1e-9


def go_by_device(monitor: nd.Monitor) -> Any:
    """From now on nothing is read by the kernel; the adapter's reader."""
    reader = monitor._adapter._reader  # type: ignore[attr-defined]
    reader.host_kinds = set()
    return reader


def recorded_by(
    logdir: Path, path: str, train: Callable[[nd.Monitor], object], model: Any, optimizer: Any, **options: Any
) -> Recorded:
    options = {"every": 1, "strict": True, "memory": False, **options}
    with no_warnings(), nd.watch(model, optimizer, logdir=logdir, run=path, **options) as monitor:
        if path == "device":
            go_by_device(monitor)
        train(monitor)
    return Recorded(logdir / path)


def both(
    logdir: Path, make: Callable[[], tuple[Any, Any, Callable[[nd.Monitor], object]]], **options: Any
) -> tuple[Recorded, Recorded]:
    """The same training recorded on either way."""
    found = []
    for path in ("host", "device"):
        torch.manual_seed(3)
        model, optimizer, train = make()
        found.append(recorded_by(logdir, path, train, model, optimizer, **options))
    return found[0], found[1]


def assert_equal_summaries(host: Summary, device: Summary) -> None:
    """Counts and bins exactly, sums but for their order."""
    for name in ("count", "nan", "pos_inf", "neg_inf", "zeros", "overflow"):
        assert getattr(host, name) == getattr(device, name), name
    np.testing.assert_array_equal(host.bins, device.bins)
    np.testing.assert_array_equal(host.counts, device.counts)
    assert (host.min, host.max) == pytest.approx((device.min, device.max), rel=0, abs=0, nan_ok=True)
    assert host.sum_squares == pytest.approx(device.sum_squares, rel=RELATIVE)
    assert host.sum == pytest.approx(device.sum, rel=RELATIVE, abs=RELATIVE * host.norm * host.count**0.5)


def assert_equal_records(host: Recorded, device: Recorded) -> None:
    """Everything but what the clock says."""
    assert host.steps == device.steps == sorted(set(host.steps))
    ours = ("time/", "monitor/", "probe/waited")
    for name in {*host.scalars, *device.scalars}:
        if not name.startswith(ours):
            assert host.scalars[name] == pytest.approx(device.scalars[name], rel=RELATIVE, nan_ok=True), name
    ours_host, ours_device = host.all_samples(), device.all_samples()
    assert ours_host.keys() == ours_device.keys()
    for series, samples in ours_host.items():
        assert samples.keys() == ours_device[series].keys(), series
        for step, summary in samples.items():
            assert_equal_summaries(summary, ours_device[series][step])
        assert host.units(series.kind, series.name) == device.units(series.kind, series.name), series


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("kind", MODELS)
def test_the_device_says_what_the_kernel_says(kind: str, every: int, logdir: Path) -> None:
    """Losses, norms, weights, gradients, updates, activations and units of all kinds of models."""

    def make() -> tuple[Any, Any, Any]:
        make_model, batch = MODELS[kind]
        model = make_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        return model, optimizer, lambda monitor: fit(model, optimizer, batch, monitor=monitor)

    assert_equal_records(*both(logdir, make, every=every))


def test_one_optimizer_on_a_device_and_one_on_the_host(logdir: Path) -> None:
    """The norm is that of all gradients, wherever they are."""

    def make() -> tuple[Any, Any, Any]:
        models = [mlp(), mlp()]
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in models]

        def train(monitor: nd.Monitor) -> None:
            reader = monitor._adapter._reader  # type: ignore[attr-defined]
            kinds = reader.host_kinds
            for _ in range(4):
                batch = torch.randn(8, models[0][0].in_features)
                for place, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
                    optimizer.zero_grad()
                    model(batch).square().mean().backward()
                    reader.host_kinds = {"cpu"} if place == 0 else kinds
                    optimizer.step()
                reader.host_kinds = kinds
                monitor.step()

        return {"a": models[0], "b": models[1]}, optimizers, train

    host, device = both(logdir, make)
    assert [*range(4)] == sorted(host.scalars["gradient_norm"])
    assert host.scalars["gradient_norm"] == pytest.approx(device.scalars["gradient_norm"], rel=RELATIVE)


def test_shared_layers_and_repeated_looks(logdir: Path) -> None:
    """A layer called twice, and an optimizer that steps twice in a step: merged and counted alike."""

    def make() -> tuple[Any, Any, Any]:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(monitor: nd.Monitor) -> None:
            for step in range(4):
                for _ in range(2):
                    optimizer.zero_grad()
                    loss = model(model(torch.randn(3, 4))).square().sum()
                    loss.backward()
                    optimizer.step()
                monitor.log(extra=loss * 2)
                monitor.step(loss, step=step)

        return model, optimizer, train

    assert_equal_records(*both(logdir, make))


def test_several_optimizers_and_accumulation(logdir: Path) -> None:
    """The norm is over both optimizers, and absent where none has stepped."""

    def make() -> tuple[Any, Any, Any]:
        model = mlp()
        optimizers = [
            torch.optim.SGD(model[:2].parameters(), lr=0.1),
            torch.optim.Adam(model[2:].parameters()),
        ]

        def train(monitor: nd.Monitor) -> None:
            for step in range(6):
                loss = model(torch.randn(8, 6)).square().mean()
                loss.backward()
                if step % 2:
                    for optimizer in optimizers:
                        optimizer.step()
                    model.zero_grad()
                monitor.step(loss)

        return model, optimizers, train

    host, device = both(logdir, make)
    assert_equal_records(host, device)
    assert [1, 3, 5] == list(device.scalars["gradient_norm"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
def test_other_types(dtype: torch.dtype, logdir: Path) -> None:
    """Parameters and activations that are not float32."""

    def make() -> tuple[Any, Any, Any]:
        model = nn.Linear(3, 2).to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def train(monitor: nd.Monitor) -> None:
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(torch.ones(4, 3, dtype=dtype)).abs().float().sum()
                loss.backward()
                optimizer.step()
                monitor.step(loss)

        return model, optimizer, train

    with_norm = {**{}, "every": 1}
    host, device = both(logdir, make, **with_norm)
    assert host.steps == device.steps
    for series, samples in host.all_samples().items():
        for step, summary in samples.items():
            other = device.samples(series.kind, series.name)[step]
            assert (summary.count, summary.zeros) == (other.count, other.zeros)
            assert summary.norm == pytest.approx(other.norm, rel=1e-6)
    assert host.series("gradient_norm") == pytest.approx(device.series("gradient_norm"), rel=1e-6)


class Held(DeviceSummaries):
    """A device that answers only when it is told."""

    def __init__(self) -> None:
        super().__init__(room_bytes=1 << 18)  # so small that a step needs several parcels
        self.open_parcels = 0
        self._held: list[SentParcel] = []

    def finished(self) -> list[SentParcel]:
        self._held += super().finished()
        given, self._held = self._held[: self.open_parcels], self._held[self.open_parcels :]
        self.open_parcels -= len(given)
        return given

    @property
    def pending_bytes(self) -> int:
        return super().pending_bytes + sum(sent.shipment.nbytes for sent in self._held)

    def drain(self) -> list[Any]:
        self.open_parcels = 1 << 30
        self.flush()
        return [self.collect(sent) for sent in self.finished()]


def test_a_step_waits_for_all_of_its_parcels(logdir: Path) -> None:
    """Steps are written in order and whole, one parcel at a time; close() waits for the rest."""
    torch.manual_seed(3)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    written = []
    with (
        no_warnings(),
        nd.watch(
            model, optimizer, logdir=logdir, run="device", every=1, strict=True, memory=False
        ) as monitor,
    ):
        reader = go_by_device(monitor)
        reader.device = held = Held()
        for step in range(12):
            held.open_parcels = 1
            fit(model, optimizer, steps=1)
            monitor.step(loss=torch.tensor(float(step)))
            written.append(12 - len(monitor._finished.in_flight))
        parcels = held.cost.parcels
    assert parcels > 24
    assert len(monitor._finished.in_flight) == 0
    found = Recorded(logdir / "device")
    assert list(range(12)) == found.steps
    assert [float(step) for step in range(12)] == found.series("loss")
    for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION):
        for name in found.names(kind):
            assert list(range(12)) == list(found.samples(kind, name)), (kind, name)


def test_a_device_that_does_not_answer_is_not_waited_for(logdir: Path) -> None:
    """After many steps they are written without their numbers, which follow when they come after all."""
    torch.manual_seed(3)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        no_warnings(),
        nd.watch(
            model, optimizer, logdir=logdir, run="device", every=10, strict=True, memory=False
        ) as monitor,
    ):
        reader = go_by_device(monitor)
        reader.device = Held()
        for step in range(100):
            fit(model, optimizer, steps=1)
            monitor.step(loss=torch.tensor(float(step)))
        assert len(monitor._finished.in_flight) <= 64
    found = Recorded(logdir / "device")
    assert list(range(100)) == sorted(set(found.steps))
    assert {step: float(step) for step in range(100)} == dict(sorted(found.scalars["loss"].items()))
    assert list(range(0, 100, 10)) == sorted(found.samples(Kind.UPDATE, "0.weight"))
