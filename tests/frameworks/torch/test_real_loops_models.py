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
from tb_netdebug.core.records.step import Kind
from tests.support.loops import (
    OF_PARAMETERS,
    Recorded,
    Recurrent,
    fit,
    our_warnings,
    recorded,
    sequences,
    steps_of,
)
from tests.support.probed import sgd


def back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


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
