"""For the tests of the recorder: small models, loops that train them, and what was recorded, step by step."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import Run, RunColumns, read_run
from tb_netdebug.core.eventlog.writer import WriterWarning
from tb_netdebug.core.records.graph import Graph, decode_graph
from tb_netdebug.core.records.run_info import decode_run_info
from tb_netdebug.core.records.step import Kind, Series, Units
from tb_netdebug.core.stats.packed import Summary

ROOT = Path(__file__).resolve().parents[2]

# The kinds of statistics that every parameter has.
OF_PARAMETERS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)

Batch = tuple[torch.Tensor, torch.Tensor]
MLP_LAYERS = {"0", "1", "2", "3", "4"}
MLP_PARAMETERS = {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"}


class Recorded:
    """What one rank of a run has in its files, by step."""

    def __init__(self, path: Path, rank: int = 0) -> None:
        self.run: Run = read_run(path)
        assert [] == self.run.losses
        columns: RunColumns = self.run.ranks[rank]
        self.steps: list[int] = columns.steps.tolist()
        self.scalars: dict[str, dict[int, float]] = {
            name: dict(zip(columns.steps[scalar.rows].tolist(), scalar.values.tolist(), strict=True))
            for name, scalar in columns.scalars.items()
        }
        self._tensors = columns.tensors
        self._all_steps = columns.steps

    @property
    def info(self) -> dict[str, Any]:
        return decode_run_info(self.run.latest["run"])

    @property
    def graph(self) -> Graph:
        return decode_graph(self.run.latest["graph"])

    def series(self, scalar: str) -> list[float]:
        """The values of a scalar in the order of the steps."""
        return [value for _, value in sorted(self.scalars[scalar].items())]

    def names(self, kind: Kind) -> set[str]:
        return {series.name for series in self._tensors if series.kind == kind}

    def samples(self, kind: Kind, name: str) -> dict[int, Summary]:
        """By step; empty when there are none."""
        tensor = self._tensors.get(Series(kind, name))
        if tensor is None:
            return {}
        return dict(zip(self._all_steps[tensor.rows].tolist(), tensor.summaries(), strict=True))

    def units(self, kind: Kind, name: str) -> dict[int, Units | None]:
        tensor = self._tensors[Series(kind, name)]
        found = [
            table.units(place)
            for table, series in tensor._parts
            for place in range(*table.rows_of(series).indices(len(table)))
        ]
        return dict(zip(self._all_steps[tensor.rows].tolist(), found, strict=True))

    def active(self, name: str, step: int = 0) -> list[int]:
        """Which units of an activation were active in this step."""
        units = self.units(Kind.ACTIVATION, name)[step]
        assert units is not None
        bits = np.unpackbits(np.frombuffer(units.active, np.uint8), bitorder="little")[: units.count]
        return [int(bit) for bit in bits]

    def all_samples(self) -> dict[Series, dict[int, Summary]]:
        return {series: self.samples(series.kind, series.name) for series in self._tensors}


@contextmanager
def no_warnings() -> Iterator[None]:
    """Neither the recorder nor what it makes torch do may warn; usually hidden warnings count, too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    told = [str(each.message) for each in caught if not issubclass(each.category, ResourceWarning)]
    assert [] == told, told


@contextmanager
def our_warnings() -> Iterator[list[str]]:
    """What the recorder says meanwhile."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    told += [str(each.message) for each in caught if issubclass(each.category, WriterWarning)]


def recorded(
    logdir: Path,
    model: Any,
    optimizer: Any,
    train: Callable[[nd.Monitor], object],
    **options: Any,
) -> Recorded:
    """Runs a loop under watch, strictly and without warnings, and reads what it has left."""
    options = {"every": 1, "strict": True, "memory": False, "run": "run", **options}
    with no_warnings(), nd.watch(model, optimizer, logdir=logdir, **options) as monitor:
        train(monitor)
    return Recorded(logdir / options["run"])


def steps_of(
    model: nn.Module, *inputs: Any, optimizer: Any = None, steps: int = 3
) -> Callable[[nd.Monitor], None]:
    """A loop that makes the sum of the model's output small, whatever the model is called with."""

    def run(monitor: nd.Monitor) -> None:
        for _ in range(steps):
            model.zero_grad()
            loss = model(*inputs).real.float().sum()
            loss.backward()
            if optimizer is not None:
                optimizer.step()
            monitor.step(loss)

    return run


def assert_complete(found: Recorded, steps: list[int]) -> None:
    """Every statistic of the MLP in every one of these steps."""
    assert MLP_LAYERS == found.names(Kind.ACTIVATION)
    for kind in OF_PARAMETERS:
        assert MLP_PARAMETERS == found.names(kind)
        for name in MLP_PARAMETERS:
            assert steps == list(found.samples(kind, name)), (kind, name)


# ---- models --------------------------------------------------------------------------------


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(8 * 2 * 2, 3),
    )


class Transformer(nn.Module):
    """A little encoder with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        encoded: torch.Tensor = self.head(self.encoder(self.embed(tokens)).mean(dim=1))
        return encoded


class Recurrent(nn.Module):
    """An LSTM whose last state is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 8, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        output, _ = self.lstm(sequence)
        scores: torch.Tensor = self.head(output[:, -1])
        return scores


def vectors() -> Batch:
    return torch.randn(8, 6), torch.randint(3, (8,))


def pictures() -> Batch:
    return torch.randn(8, 1, 8, 8), torch.randint(3, (8,))


def texts() -> Batch:
    return torch.randint(11, (4, 7)), torch.randint(3, (4,))


def sequences() -> Batch:
    return torch.randn(4, 6, 5), torch.randint(3, (4,))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]] = {
    "mlp": (mlp, vectors),
    "cnn": (cnn, pictures),
    "transformer": (Transformer, texts),
    "lstm": (Recurrent, sequences),
}


# ---- loops --------------------------------------------------------------------------------


@dataclass(slots=True)
class Trained:
    """All that a training leaves."""

    losses: list[float]
    weights: dict[str, torch.Tensor]
    gradients: dict[str, torch.Tensor | None]
    random_state: torch.Tensor


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Callable[[], Batch] = vectors,
    *,
    steps: int = 6,
    monitor: nd.Monitor | None = None,
) -> list[float]:
    """The plainest loop; its losses."""
    losses = []
    for _ in range(steps):
        inputs, labels = batch()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    return losses


def trained(
    kind: str, logdir: Path | None, *, steps: int = 6, optimizer: Any = torch.optim.Adam, **options: Any
) -> Trained:
    """Trains a model of MODELS from a fixed seed, under watch when there is a folder to write to."""
    torch.manual_seed(7)
    make, batch = MODELS[kind]
    model = make()
    moved_by = optimizer(model.parameters(), lr=0.01)
    if logdir is None:
        losses = fit(model, moved_by, batch, steps=steps)
    else:
        with (
            no_warnings(),
            nd.watch(model, moved_by, logdir=logdir, **{"run": "run", "strict": True, **options}) as monitor,
        ):
            losses = fit(model, moved_by, batch, steps=steps, monitor=monitor)
    return state_of(model, losses)


def state_of(model: nn.Module, losses: list[float]) -> Trained:
    return Trained(
        losses,
        {name: value.detach().clone() for name, value in model.state_dict().items()},
        {name: None if each.grad is None else each.grad.clone() for name, each in model.named_parameters()},
        torch.get_rng_state(),
    )


def assert_equal(expected: Trained, actual: Trained) -> None:
    """Bit for bit."""
    assert expected.losses == actual.losses
    for before, after in ((expected.weights, actual.weights), (expected.gradients, actual.gradients)):
        assert before.keys() == after.keys()
        for name, value in before.items():
            other = after[name]
            assert (value is None) == (other is None), name
            assert value is None or other is None or torch.equal(value, other), name
    assert torch.equal(expected.random_state, actual.random_state)


def hooks_of(*models: nn.Module) -> list[int]:
    """How many hooks each module has, in the order of the modules, and then torch's own registries."""
    registries = sys.modules["torch.nn.modules.module"]
    optimizers = sys.modules["torch.optim.optimizer"]  # not torch.optim.optimizer: torch hides the module
    of_modules = [
        len(registry)
        for model in models
        for module in model.modules()
        for registry in (
            module._forward_hooks,
            module._forward_pre_hooks,
            module._backward_hooks,
            module._backward_pre_hooks,
            module._forward_hooks_with_kwargs,
            module._forward_pre_hooks_with_kwargs,
            module._forward_hooks_always_called,
            module._state_dict_hooks,
            module._load_state_dict_pre_hooks,
        )
    ]
    return of_modules + [
        len(registry)
        for registry in (
            registries._global_forward_hooks,
            registries._global_forward_pre_hooks,
            registries._global_backward_hooks,
            registries._global_backward_pre_hooks,
            registries._global_forward_hooks_always_called,
            registries._global_module_registration_hooks,
            registries._global_parameter_registration_hooks,
            registries._global_buffer_registration_hooks,
            optimizers._global_optimizer_pre_hooks,
            optimizers._global_optimizer_post_hooks,
        )
    ]


def run_script(script: Path, *python: str, after: Sequence[str] = ()) -> None:
    """A program in a process of its own, with one thread; fails the test when the program fails.

    `python` goes before the name of the script, `after` behind it.
    """
    path = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
    ran = subprocess.run(
        [sys.executable, *python, str(script), *after],
        cwd=script.parent,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
