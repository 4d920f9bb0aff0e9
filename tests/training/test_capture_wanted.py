"""What is recorded is what was asked for, under names that the model has."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import OF_PARAMETERS, fit, mlp, recorded


def test_names_of_series(logdir: Path) -> None:
    """Layers and parameters are called what the model calls them, several models by their prefix."""
    models = {"G": nn.Sequential(nn.Linear(2, 2)), "D": nn.Linear(2, 1)}

    def steps(monitor: nd.Monitor) -> None:
        models["D"](models["G"](torch.randn(3, 2))).sum().backward()
        optimizer.step()
        monitor.step()

    optimizer = torch.optim.SGD([*models["G"].parameters(), *models["D"].parameters()], lr=0.1)
    found = recorded(logdir, models, optimizer, steps)
    assert {"G/0", "D/Linear"} == found.names(Kind.ACTIVATION)
    for kind in OF_PARAMETERS:
        assert {"G/0.weight", "G/0.bias", "D/weight", "D/bias"} == found.names(kind)


@pytest.mark.parametrize(
    ("options", "layers", "parameters"),
    [
        ({"include": r"^2"}, {"2"}, {"2.weight", "2.bias"}),
        ({"exclude": r"bias|[01]"}, {"2", "3", "4"}, {"2.weight", "4.weight"}),
        ({"include": "weight", "exclude": "^0"}, set(), {"2.weight", "4.weight"}),
        ({"include": "nothing"}, set(), set()),
    ],
)
def test_include_and_exclude(
    options: dict[str, str], layers: set[str], parameters: set[str], logdir: Path
) -> None:
    """Only what the patterns ask for is looked at."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = recorded(
        logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor), **options
    )
    assert layers == found.names(Kind.ACTIVATION)
    for kind in OF_PARAMETERS:
        assert parameters == found.names(kind)


@pytest.mark.parametrize(
    ("switch", "missing"),
    [
        ("weights", Kind.WEIGHT),
        ("gradients", Kind.GRADIENT),
        ("updates", Kind.UPDATE),
        ("activations", Kind.ACTIVATION),
    ],
)
def test_each_switch_turns_off_its_own(switch: str, missing: Kind, logdir: Path) -> None:
    """One kind of statistics goes, the others stay complete."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = recorded(
        logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor), **{switch: False}
    )
    assert set() == found.names(missing)
    for kind in {*OF_PARAMETERS, Kind.ACTIVATION} - {missing}:
        assert found.names(kind)
        assert all(found.steps == list(found.samples(kind, name)) for name in found.names(kind))


def test_batches_and_memory_can_be_switched_off(logdir: Path) -> None:
    """Then there is neither a batch size nor a reading of the memory."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = recorded(
        logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor), batches=False
    )
    assert not [name for name in found.scalars if name == "batch_size" or name.startswith("memory")]


def test_memory_of_the_process_is_read(logdir: Path) -> None:
    """The resident memory is among the scalars."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        assert monitor._memory is not None
        while not monitor._memory.cost_secs:  # read by a thread of its own
            fit(model, optimizer, steps=1, monitor=monitor)
        fit(model, optimizer, steps=1, monitor=monitor)

    found = recorded(logdir, model, optimizer, steps, memory=True)
    assert 1 << 20 < found.series("memory/rss")[0] < 1 << 40


def test_the_run_describes_itself(logdir: Path) -> None:
    """Settings, framework, and the number of layers and parameters are in the file; so is the graph."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = recorded(logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor))
    assert f"torch {torch.__version__}" == found.info["framework"]
    assert (6, 5, ["SGD"]) == (found.info["parameters"], found.info["layers"], found.info["optimizers"])
    assert 1 == found.info["settings"]["every"]
    assert [] == found.info["not_watched"]
    assert ["Sequential", "0", "1", "2", "3", "4"] == [node.name for node in found.graph.nodes]
    assert [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4")] == [
        (edge.source, edge.target) for edge in found.graph.edges
    ]
