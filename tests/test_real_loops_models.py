"""Models of every kind: what is recorded of them is right, or one sentence says why it is not."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

import tb_netdebug as nd
from tb_netdebug.records.step import Kind
from tests.support.loops import (
    OF_PARAMETERS,
    Recorded,
    Recurrent,
    fit,
    mlp,
    no_warnings,
    our_warnings,
    recorded,
    sequences,
    vectors,
)


def back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def steps_of(
    model: nn.Module, *inputs: Any, optimizer: Any = None, steps: int = 3
) -> Callable[[nd.Monitor], None]:
    """A loop that makes the sum of the model's output small, whatever the model is called with."""

    def run(monitor: nd.Monitor) -> None:
        for _ in range(steps):
            model.zero_grad()
            loss = model(*inputs).real.float().sum()
            back(loss)
            if optimizer is not None:
                optimizer.step()
            monitor.step(loss)

    return run


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


# ---- structure --------------------------------------------------------------------------------


class Tied(nn.Module):
    """The matrix of the embedding is that of the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.decode = nn.Linear(4, 7, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.decode(self.embed(tokens))
        return scores


def test_tied_weights_count_once(logdir: Path) -> None:
    """Under their first name, with one sample a step."""
    model = Tied()
    optimizer = sgd(model)
    found = recorded(logdir, model, optimizer, steps_of(model, torch.randint(7, (3, 2)), optimizer=optimizer))
    for kind in OF_PARAMETERS:
        assert {"embed.weight"} == found.names(kind)
        assert [28] * 3 == [each.count for each in found.samples(kind, "embed.weight").values()]
    assert {"embed", "decode"} == found.names(Kind.ACTIVATION)


class Shared(nn.Module):
    """One layer called twice, another under two names, and one never."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.alias = self.layer
        self.unused = nn.Linear(9, 9)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.alias(self.layer(inputs))
        return outputs


def test_a_layer_called_twice_and_one_never(logdir: Path) -> None:
    """Two calls are one sample of both; what is never called has weights but no activations."""
    model = Shared()
    optimizer = sgd(model)
    found = recorded(logdir, model, optimizer, steps_of(model, torch.randn(5, 4), optimizer=optimizer))
    assert {"layer"} == found.names(Kind.ACTIVATION)
    assert [2 * 5 * 4] * 3 == [each.count for each in found.samples(Kind.ACTIVATION, "layer").values()]
    assert {"layer.weight", "layer.bias"} == found.names(Kind.GRADIENT)
    assert {"layer.weight", "layer.bias", "unused.weight", "unused.bias"} == found.names(Kind.WEIGHT)


@dataclass
class Answer:
    """An output as transformers have them."""

    logits: torch.Tensor
    extra: Any = None
    loss: torch.Tensor | None = None


class Pair(NamedTuple):
    """An output with names."""

    first: torch.Tensor
    second: torch.Tensor


class Nested(nn.Module):
    """Gives its input in a structure."""

    def __init__(self, structure: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.structure = structure

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.structure(inputs * self.scale)


STRUCTURES: dict[str, tuple[Callable[[torch.Tensor], Any], set[str]]] = {
    "tuple": (lambda x: (x, x + 1), {"[0]", "[1]"}),
    "dict": (lambda x: {"a": x, "b": [x, {"c": x}]}, {"[a]", "[b][0]", "[b][1][c]"}),
    "dataclass": (lambda x: Answer(x, extra=(x,)), {"[logits]", "[extra][0]"}),
    "named tuple": (lambda x: Pair(x, x), {"[0]", "[1]"}),
    "with other things": (lambda x: [None, "text", 3, x, x.long()], {"[3]"}),
    "nothing": (lambda x: None, set()),
}


@pytest.mark.parametrize(("structure", "places"), STRUCTURES.values(), ids=STRUCTURES.keys())
def test_nested_outputs(structure: Callable[[torch.Tensor], Any], places: set[str], logdir: Path) -> None:
    """Each tensor in a structure has its place in the name."""
    model = Nested(structure)

    def steps(monitor: nd.Monitor) -> None:
        model(torch.randn(4, 3))
        monitor.step()

    found = recorded(logdir, model, None, steps)
    assert {f"Nested{place}" for place in places} == found.names(Kind.ACTIVATION)


def test_activations_in_place(logdir: Path) -> None:
    """What a following layer overwrites was seen before; of the following layer what it has made of it."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([-1.0, -2.0, 3.0, 4.0]))
    found = recorded(logdir, model, None, steps_of(model, torch.randn(2, 4), steps=1))
    before, after = (found.samples(Kind.ACTIVATION, name)[0] for name in ("0", "1"))
    assert (-2.0, 4.0, 0) == (before.min, before.max, before.zeros)
    assert (0.0, 4.0, 4) == (after.min, after.max, after.zeros)


def test_an_lstm_in_its_parts(logdir: Path) -> None:
    """Output, hidden state and cell state are three series; units are the hidden features."""
    model = Recurrent()
    optimizer = sgd(model)
    found = recorded(
        logdir, model, optimizer, lambda monitor: fit(model, optimizer, sequences, monitor=monitor)
    )
    assert {"lstm[0]", "lstm[1][0]", "lstm[1][1]", "head"} == found.names(Kind.ACTIVATION)
    assert [1] * 8 == found.active("lstm[0]")
    assert {
        "lstm.weight_ih_l0",
        "lstm.weight_hh_l0",
        "lstm.bias_ih_l0",
        "lstm.bias_hh_l0",
    } < found.names(Kind.GRADIENT)


@pytest.mark.parametrize("make", [nn.RNN, nn.GRU, nn.LSTM])
def test_packed_sequences(make: Callable[..., nn.Module], logdir: Path) -> None:
    """Of a packed sequence the values that it really holds are counted."""
    model = make(3, 5, batch_first=True)
    optimizer = sgd(model)
    packed = pack_padded_sequence(torch.randn(2, 6, 3), torch.tensor([6, 2]), batch_first=True)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(2):
            optimizer.zero_grad()
            output, _ = model(packed)
            back(output.data.sum())
            optimizer.step()
            monitor.step()

    found = recorded(logdir, model, optimizer, steps)
    name = type(model).__name__
    assert [8 * 5] * 2 == [each.count for each in found.samples(Kind.ACTIVATION, f"{name}[0][data]").values()]


class Checkpointed(nn.Module):
    """Two blocks that are computed again during backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        self.second = nn.Linear(6, 2)
        self.reentrant = reentrant

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(self.first, inputs, use_reentrant=self.reentrant)
        outputs: torch.Tensor = checkpoint(self.second, hidden, use_reentrant=self.reentrant)
        return outputs


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_counts_once(reentrant: bool, logdir: Path) -> None:
    """Computed twice, recorded once."""
    model = Checkpointed(reentrant)
    optimizer = sgd(model)
    inputs = torch.randn(5, 4, requires_grad=True)
    found = recorded(logdir, model, optimizer, steps_of(model, inputs, optimizer=optimizer))
    for name, count in (("first.0", 30), ("first.1", 30), ("second", 10)):
        assert [count] * 3 == [each.count for each in found.samples(Kind.ACTIVATION, name).values()]
    assert [5.0] * 3 == found.series("batch_size")


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_checkpointing_gives_up_is_not_kept(reentrant: bool, logdir: Path) -> None:
    """Already in the first step, in which the data flow is followed, outputs inside go after forward."""
    model = Checkpointed(reentrant)
    outputs: list[weakref.ref[torch.Tensor]] = []
    model.first[0].register_forward_hook(lambda _, __, output: outputs.append(weakref.ref(output)))

    def steps(monitor: nd.Monitor) -> None:
        output = model(torch.randn(5, 4, requires_grad=True))
        assert [None] == [each() for each in outputs]
        back(output.sum())
        monitor.step()

    found = recorded(logdir, model, None, steps)
    assert "first.0" in {edge.source for edge in found.graph.edges} or reentrant


def test_one_parameter(logdir: Path) -> None:
    """The smallest model there is."""
    model = nn.Linear(1, 1, bias=False)
    optimizer = sgd(model)
    found = recorded(logdir, model, optimizer, steps_of(model, torch.ones(1, 1), optimizer=optimizer))
    assert ({"weight"}, {"Linear"}) == (found.names(Kind.UPDATE), found.names(Kind.ACTIVATION))
    assert [1.0] * 3 == found.series("gradient_norm")


def test_no_parameter_at_all(logdir: Path) -> None:
    """Nothing to train, and still its activations."""
    model = nn.ReLU()
    inputs = torch.randn(2, 3, requires_grad=True)
    found = recorded(logdir, model, None, steps_of(model, inputs))
    assert {"ReLU"} == found.names(Kind.ACTIVATION)
    assert set() == found.names(Kind.WEIGHT)


def test_five_thousand_tensors(logdir: Path) -> None:
    """Each has all of its series."""
    model = nn.ParameterList([nn.Parameter(torch.full((2,), float(number))) for number in range(5000)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, foreach=True)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(2):
            optimizer.zero_grad()
            back(torch.stack(list(model)).sum())
            optimizer.step()
            monitor.step()

    found = recorded(logdir, model, optimizer, steps)
    for kind in OF_PARAMETERS:
        assert {str(number) for number in range(5000)} == found.names(kind)
    assert (10000.0**0.5) == pytest.approx(found.series("gradient_norm")[0], rel=1e-12)
    assert 2 * 4998.0 == found.samples(Kind.WEIGHT, "4999")[0].sum
    assert [-2.0, -2.0] == [each.sum for each in found.samples(Kind.UPDATE, "17").values()]


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensors(layout: torch.layout, logdir: Path) -> None:
    """Sequences of different lengths in one tensor: the values that it really holds are counted."""
    model = nn.Linear(3, 2)
    optimizer = sgd(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch's own: a prototype
        inputs = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=layout)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            back(model(inputs).values().sum())
            optimizer.step()
            monitor.step()

    found = recorded(logdir, model, optimizer, steps)
    assert [6 * 2] * 3 == [each.count for each in found.samples(Kind.ACTIVATION, "Linear").values()]


# ---- growth --------------------------------------------------------------------------------


def test_modules_and_parameters_that_appear_later(logdir: Path) -> None:
    """Layers and parameters are recorded from the step after they came."""
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = sgd(model)

    def steps(monitor: nd.Monitor) -> None:
        steps_of(model, torch.randn(3, 4), optimizer=optimizer, steps=2)(monitor)
        model.add_module("late", nn.Linear(4, 4))
        optimizer.add_param_group({"params": model.late.parameters()})
        steps_of(model, torch.randn(3, 4), optimizer=optimizer, steps=3)(monitor)

    found = recorded(logdir, model, optimizer, steps)
    assert [2, 3, 4] == list(found.samples(Kind.UPDATE, "late.weight"))
    assert [0, 1, 2, 3, 4] == list(found.samples(Kind.UPDATE, "0.weight"))
    assert {3, 4} <= {*found.samples(Kind.ACTIVATION, "late")} <= {2, 3, 4}


def test_a_parameter_that_is_replaced(logdir: Path) -> None:
    """A new tensor under an old name goes on in the old series; its first update is none."""
    model = nn.Linear(3, 3, bias=False)

    def steps(monitor: nd.Monitor) -> None:
        for number in range(3):
            model.weight = nn.Parameter(torch.full((3, 3 + number), float(number)))
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            steps_of(model, torch.ones(2, 3 + number), optimizer=optimizer, steps=1)(monitor)

    found = recorded(logdir, model, None, steps)
    assert [9, 12, 15] == [each.count for each in found.samples(Kind.WEIGHT, "weight").values()]
    assert [-2.0] * 3 == [each.max for each in found.samples(Kind.UPDATE, "weight").values()]


def test_lazy_modules(logdir: Path) -> None:
    """Parameters without a shape are silently waited for."""
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))

    def steps(monitor: nd.Monitor) -> None:
        monitor.step()
        model(torch.randn(3, 5))
        optimizer = sgd(model)
        steps_of(model, torch.randn(3, 5), optimizer=optimizer)(monitor)

    with our_warnings() as told, nd.watch(model, logdir=logdir, run="run", every=1, memory=False) as monitor:
        steps(monitor)
    assert [] == told
    found = Recorded(logdir / "run")
    assert [1, 2, 3] == list(found.samples(Kind.UPDATE, "0.weight"))
    assert {2, 3} <= {*found.samples(Kind.ACTIVATION, "2")}


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
    """torch.jit.trace sees what it saw without us; torch.jit.script says that it needs the hooks gone."""
    model = mlp()
    inputs = torch.randn(2, 6)
    expected = str(torch.jit.trace(model, inputs).graph)
    with nd.watch(model, logdir=logdir, run="run", every=1, strict=True, memory=False) as monitor:
        traced = torch.jit.trace(model, inputs)
        monitor.step()
        with pytest.raises(AttributeError, match="close the monitor first"):
            torch.jit.script(model)
    assert expected.count("aten::") == str(traced.graph).count("aten::")
    assert set() == Recorded(logdir / "run").names(Kind.ACTIVATION)
    torch.jit.script(model)


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
