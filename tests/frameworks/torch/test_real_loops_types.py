"""Types of tensors, and modules around modules: recorded, or one sentence says why not."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import (
    OF_PARAMETERS,
    Recorded,
    fit,
    mlp,
    no_warnings,
    our_warnings,
    recorded,
    steps_of,
    vectors,
)
from tests.support.probed import sgd


def back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


# ---- types --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128]
)
def test_types_of_parameters(dtype: torch.dtype, logdir: Path) -> None:
    """Every type of floating-point numbers, and complex ones by their magnitude."""
    model = nn.Linear(3, 2).to(dtype)
    optimizer = sgd(model)
    weights: list[torch.Tensor] = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            steps_of(model, torch.ones(4, 3, dtype=dtype), optimizer=optimizer, steps=1)(monitor)
            weights.append(model.weight.detach().clone())

    found = recorded(logdir, model, optimizer, steps)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    for step, summary in found.samples(Kind.WEIGHT, "weight").items():
        values = weights[step].to(wide)
        assert values.norm().item() == pytest.approx(summary.norm, rel=1e-6)
    assert (
        [0, 1, 2]
        == list(found.samples(Kind.GRADIENT, "bias"))
        == list(found.samples(Kind.ACTIVATION, "Linear"))
    )
    assert [2.0, 2.0] == [
        summary.zeros + summary.finite for summary in found.samples(Kind.UPDATE, "bias").values()
    ][:2]


def test_sparse_gradients(logdir: Path) -> None:
    """Of a sparse gradient the values that it stores, rows hit twice added up."""
    model = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.1)
    norms = []

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            back(model(torch.tensor([1, 1, 3])).square().sum())
            norms.append(model.weight.grad.to_dense().double().norm().item())
            optimizer.step()
            monitor.step()

    found = recorded(logdir, model, optimizer, steps)
    assert [8] * 3 == [each.count for each in found.samples(Kind.GRADIENT, "weight").values()]
    assert [40] * 3 == [each.count for each in found.samples(Kind.UPDATE, "weight").values()]
    assert norms == pytest.approx(found.series("gradient_norm"), rel=1e-6)


def test_transposed_and_strided_parameters(logdir: Path) -> None:
    """Weights that do not lie in memory row by row are read all the same."""
    model = nn.Linear(3, 4)
    model.weight = nn.Parameter(torch.randn(3, 4).t())
    model.bias = nn.Parameter(torch.randn(8)[::2])
    optimizer = sgd(model)
    before = [each.detach().clone() for each in model.parameters()]
    found = recorded(
        logdir, model, optimizer, steps_of(model, torch.randn(2, 3), optimizer=optimizer, steps=1)
    )
    for name, old, new in zip(("weight", "bias"), before, model.parameters(), strict=True):
        assert new.double().sum().item() == pytest.approx(found.samples(Kind.WEIGHT, name)[0].sum, rel=1e-12)
        moved = (new - old).detach().double().norm().item()
        assert moved == pytest.approx(found.samples(Kind.UPDATE, name)[0].norm, rel=1e-12)


def unreadable(model: nn.Module, logdir: Path, inputs: Any = None) -> tuple[list[str], Recorded]:
    """What is said of a model that cannot be read whole; nothing may raise."""
    with (
        our_warnings() as told,
        nd.watch(model, logdir=logdir, run="run", every=1, strict=True, memory=False) as monitor,
    ):
        for _ in range(3):
            if inputs is not None:
                model(inputs)
            monitor.step()
    return told, Recorded(logdir / "run")


def test_parameters_on_the_meta_device(logdir: Path) -> None:
    """They have no values, and one sentence says so."""
    told, found = unreadable(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).to("meta"), logdir)
    assert ["NetDebug: 0.weight is not watched: it is on the meta device and has no values."] == told
    assert 4 == len(found.info["not_watched"])


def test_float8_weights_are_read_through_a_cast(logdir: Path) -> None:
    """The kernel does not know the type, float32 holds it exactly."""
    model = nn.Module()
    values = torch.tensor([0.5, -2.0, 0.0]).to(torch.float8_e4m3fn)
    model.weight = nn.Parameter(values, requires_grad=False)
    told, found = unreadable(model, logdir)
    assert [] == told
    summary = found.samples(Kind.WEIGHT, "weight")[0]
    assert (3, 1, -2.0, 0.5) == (summary.count, summary.zeros, summary.min, summary.max)


def test_quantised_activations_are_read_through_a_cast(logdir: Path) -> None:
    """They count as the numbers that they stand for."""

    class Quantize(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            quantised: torch.Tensor = torch.quantize_per_tensor(values, 0.5, 0, torch.qint8)
            return quantised

    model = nn.Sequential(Quantize())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch's own, of deprecation
        told, found = unreadable(model, logdir, torch.tensor([[1.0, -1.5, 0.0]]))
    assert [] == [text for text in told if "is not watched" not in text]
    samples = found.samples(Kind.ACTIVATION, "0")
    assert [(3, 1, -1.5, 1.0)] * 3 == [
        (each.count, each.zeros, each.min, each.max) for each in samples.values()
    ]


# ---- wrappers --------------------------------------------------------------------------------


def test_data_parallel_on_the_cpu(logdir: Path) -> None:
    """The wrapper's prefix is no part of the names, and the training is as without."""
    inner = mlp()
    model = nn.DataParallel(inner)
    optimizer = sgd(model)
    found = recorded(logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor))
    assert {"0", "1", "2", "3", "4"} == found.names(Kind.ACTIVATION)
    assert {name for name, _ in inner.named_parameters()} == found.names(Kind.UPDATE)
    assert [8.0] * 6 == found.series("batch_size")


def test_a_layer_called_module(logdir: Path) -> None:
    """Only what a wrapper has put before a name is taken away, not what the user has called so."""

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(6, 3)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.module(inputs)
            return outputs

    model = Inner()
    optimizer = sgd(model)
    found = recorded(logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor))
    assert {"module"} == found.names(Kind.ACTIVATION)
    assert {"module.weight", "module.bias"} == found.names(Kind.WEIGHT)


def test_weight_norm(logdir: Path) -> None:
    """Reparametrised weights: what is trained is recorded."""
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)))
    optimizer = sgd(model)
    found = recorded(logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor))
    assert {
        "0.bias", "0.parametrizations.weight.original0", "0.parametrizations.weight.original1",
    } == found.names(Kind.UPDATE)  # fmt: skip
    assert "0" in found.names(Kind.ACTIVATION)


def test_traced_and_scripted_models(logdir: Path) -> None:
    """TorchScript: weights and gradients are recorded; one sentence says that there is no more to see."""
    traced = torch.jit.trace(mlp(), torch.randn(2, 6))
    optimizer = sgd(traced)
    with our_warnings() as told, nd.watch(traced, optimizer, logdir=logdir, run="run", every=1) as monitor:
        fit(traced, optimizer, monitor=monitor)
    assert ["no call of a layer was seen"] == [text.split(": ")[2].partition(",")[0] for text in told]
    assert {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"} == Recorded(
        logdir / "run"
    ).names(Kind.UPDATE)


def test_a_watched_model_is_traced_and_scripted(logdir: Path) -> None:
    """torch.jit sees what it would see without us, whichever way it looks, also in a copy."""
    model = mlp()
    inputs = torch.randn(2, 6)
    expected = str(torch.jit.trace(model, inputs).graph)
    with nd.watch(model, logdir=logdir, run="run", every=1, strict=True, memory=False) as monitor:
        traced = torch.jit.trace(model, inputs)
        monitor.step()
        scripted = torch.jit.script(model)
        torch.jit.script(copy.deepcopy(model).eval())
    assert expected.count("aten::") == str(traced.graph).count("aten::")
    assert set() == Recorded(logdir / "run").names(Kind.ACTIVATION)
    assert str(torch.jit.script(model).graph) == str(scripted.graph)


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_scripted_is_watched_from_outside(logdir: Path, whole: bool) -> None:
    """It takes no hooks; its weights, gradients and updates are recorded, and what is not is said."""
    part = torch.jit.script(nn.Sequential(nn.Linear(6, 6), nn.ReLU()))
    model = part if whole else nn.Sequential(nn.Linear(6, 6), part)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = steps_of(model, torch.randn(4, 6), optimizer=optimizer)
    with our_warnings() as told, nd.watch(model, optimizer, logdir=logdir, run="run", every=1) as monitor:
        run(monitor)
    found = Recorded(logdir / "run")
    for kind in OF_PARAMETERS:
        assert {name for name, _ in model.named_parameters()} == found.names(kind)
    assert (set() if whole else {"0"}) == found.names(Kind.ACTIVATION)
    assert whole == any("is not watched: no call of a layer was seen" in each for each in told)


def test_inference_tensors_as_parameters(logdir: Path) -> None:
    """They have no version that could be asked for."""
    with torch.inference_mode():
        model = mlp()
        found = recorded(logdir, model, None, lambda monitor: [model(vectors()[0]), monitor.step()])
    assert [0] == list(found.samples(Kind.WEIGHT, "0.weight"))


def test_functional_calls(logdir: Path) -> None:
    """The model with other parameters: its activations are recorded, its own parameters do not move."""
    model = mlp()
    parameters = {name: each.detach().clone().requires_grad_() for name, each in model.named_parameters()}
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            back(torch.func.functional_call(model, parameters, (torch.randn(8, 6),)).sum())
            optimizer.step()
            monitor.step()

    found = recorded(logdir, model, None, steps)
    assert [8 * 16] * 3 == [each.count for each in found.samples(Kind.ACTIVATION, "0").values()]
    assert set() == found.names(Kind.GRADIENT)
    assert "gradient_norm" not in found.scalars


@pytest.mark.parametrize("transform", ["grad", "vmap of grad", "vmap", "jacrev", "jvp"])
def test_transforms_of_torch_func(transform: str, logdir: Path) -> None:
    """Inside a transform values cannot be read: at most one sentence, equal results, no error."""
    model = mlp()
    parameters = {name: each.detach() for name, each in model.named_parameters()}
    inputs = vectors()[0]

    def loss(weights: Any, sample: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = torch.func.functional_call(model, weights, (sample.unsqueeze(0),))
        return scores.square().mean()

    def compute() -> Any:
        if transform == "grad":
            return torch.func.grad(loss)(parameters, inputs[0])["0.weight"]
        if transform == "vmap of grad":
            per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, inputs)
            return per_sample["0.weight"]
        if transform == "vmap":
            return torch.func.vmap(model)(inputs)
        if transform == "jacrev":
            return torch.func.jacrev(model)(inputs[0])
        return torch.func.jvp(model, (inputs,), (torch.ones_like(inputs),))[1]

    expected = compute()
    with (
        our_warnings() as told,
        nd.watch(model, logdir=logdir, run="run", every=1, strict=True, memory=False) as monitor,
    ):
        for _ in range(3):
            assert torch.equal(expected, compute())
            monitor.step()
    assert len(told) <= 1
    assert all("inside a torch.func transform" in text for text in told)
    assert [0, 1, 2] == Recorded(logdir / "run").steps


def test_a_second_model_with_shared_layers(logdir: Path) -> None:
    """Layers that two watched models share are recorded under their first name."""
    trunk = nn.Linear(6, 4)
    models = {"a": nn.Sequential(trunk, nn.Linear(4, 1)), "b": nn.Sequential(trunk, nn.Linear(4, 1))}
    optimizer = torch.optim.SGD({*models["a"].parameters(), *models["b"].parameters()}, lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(2):
            optimizer.zero_grad()
            inputs = torch.randn(3, 6)
            back((models["a"](inputs) + models["b"](inputs)).sum())
            optimizer.step()
            monitor.step()

    with no_warnings():
        found = recorded(logdir, models, optimizer, steps)
    assert {"a/0", "a/1", "b/1"} == found.names(Kind.ACTIVATION)
    assert {"a/0.weight", "a/0.bias", "a/1.weight", "a/1.bias", "b/1.weight", "b/1.bias"} == found.names(
        Kind.UPDATE
    )
    assert [2 * 3 * 4] * 2 == [each.count for each in found.samples(Kind.ACTIVATION, "a/0").values()]
