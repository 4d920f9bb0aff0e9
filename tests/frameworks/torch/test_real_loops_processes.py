"""Copies of a watched model, and other processes: loaders' workers, forks, saved files."""

from __future__ import annotations

import copy
import io
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import Recorded, fit, mlp, no_warnings, recorded, run_script


class Numbers(Dataset[tuple[torch.Tensor, int]]):
    """A data set that asks the model while it loads, and tells in which process it was."""

    def __init__(self, model: nn.Module, monitor: nd.Monitor) -> None:
        self.model = model
        self.monitor = monitor

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.model(torch.randn(2, 6, requires_grad=True)).sum().backward()
        self.monitor.log(index=index)
        self.monitor.tensor("loaded", torch.ones(3))
        self.monitor.step(loss=1e9)
        return torch.randn(6), os.getpid()


@pytest.mark.parametrize("persistent", [False, True])
def test_forked_workers_of_a_loader_write_nothing(persistent: bool, logdir: Path) -> None:
    """Whatever a worker does with the model and the monitor, only the training's own steps are recorded."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    workers = set()

    def steps(monitor: nd.Monitor) -> None:
        loader = DataLoader(
            Numbers(model, monitor),
            batch_size=8,
            num_workers=2,
            multiprocessing_context="fork",
            persistent_workers=persistent,
        )
        for _ in range(2):
            for inputs, pids in loader:
                workers.update(pids.tolist())
                optimizer.zero_grad()
                loss = model(inputs).square().mean()
                loss.backward()
                optimizer.step()
                monitor.step(loss)
        if persistent:
            loader._iterator._shutdown_workers()  # type: ignore[union-attr]

    found = recorded(logdir, model, optimizer, steps)
    assert os.getpid() not in workers
    assert list(range(6)) == found.steps
    assert 1e9 not in found.series("loss")
    assert [8.0] * 6 == found.series("batch_size")
    assert [8 * 16] * 6 == [each.count for each in found.samples(Kind.ACTIVATION, "0").values()]
    assert {"input/0"} == found.names(Kind.TENSOR)
    assert 1 == len(found.run.files)


SPAWNED = """
import os, sys, warnings
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import tb_netdebug as nd

class Numbers(Dataset):
    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.model(torch.randn(2, 6)).sum().backward()
        return torch.randn(6), os.getpid()

def main():
    warnings.simplefilter("error")
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pids = set()
    with nd.watch(model, optimizer, logdir="logs", run="run", every=1, strict=True) as monitor:
        loader = DataLoader(Numbers(model), batch_size=4, num_workers=1, multiprocessing_context="spawn",
                            persistent_workers=True)
        for _ in range(2):
            for inputs, where in loader:
                pids.update(where.tolist())
                optimizer.zero_grad()
                loss = model(inputs).square().mean()
                loss.backward()
                optimizer.step()
                monitor.step(loss)
    assert os.getpid() not in pids and len(pids) == 1

if __name__ == "__main__":
    main()
"""


def test_spawned_workers_of_a_loader(tmp_path: Path) -> None:
    """A watched model goes to a spawned worker as one that is not watched."""
    script = tmp_path / "train.py"
    script.write_text(SPAWNED)
    run_script(script)
    found = Recorded(tmp_path / "logs/run")
    assert list(range(6)) == found.steps
    assert [4 * 4] * 6 == [each.count for each in found.samples(Kind.ACTIVATION, "0").values()]
    assert 1 == len(found.run.files)


def test_a_forked_child_that_trains_on(logdir: Path) -> None:
    """Its steps are its own: they are not recorded, and closing there leaves the parent's file alone."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        fit(model, optimizer, steps=2, monitor=monitor)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)  # a child that hangs dies of it
            with torch.no_grad():
                model(torch.randn(1, 6))
            monitor.step(loss=1e9)
            monitor.close()
            os._exit(0)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        fit(model, optimizer, steps=2, monitor=monitor)

    found = recorded(logdir, model, optimizer, steps)
    assert [0, 1, 2, 3] == found.steps
    assert 1e9 not in found.series("loss")


def test_a_deep_copy_is_not_watched(logdir: Path) -> None:
    """An averaged or a target network computes the same, and nothing of it is recorded."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(4, 6)

    def steps(monitor: nd.Monitor) -> None:
        for _ in range(3):
            fit(model, optimizer, steps=1)
            target = copy.deepcopy(model)
            assert torch.equal(target(inputs), model(inputs))
            target(torch.randn(100, 6)).sum().backward()
            torch.optim.SGD(target.parameters(), lr=1.0).step()
            monitor.step()

    before = len(gc_monitors())
    found = recorded(logdir, model, optimizer, steps)
    assert before == len(gc_monitors())
    assert [0, 1, 2] == found.steps
    calls = (8 + 4) * 16
    assert [calls] * 3 == [each.count for each in found.samples(Kind.ACTIVATION, "0").values()]


def gc_monitors() -> list[Any]:
    """Collectors that were copied along with a model would be among these."""
    import gc

    gc.collect()
    return [each for each in gc.get_objects() if type(each).__name__ == "Collector"]


def test_a_watched_model_can_be_saved_whole(logdir: Path) -> None:
    """torch.save and pickle write the model; what is loaded computes the same without NetDebug's hooks."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(4, 6)

    def steps(monitor: nd.Monitor) -> None:
        fit(model, optimizer, steps=1, monitor=monitor)
        buffer = io.BytesIO()
        torch.save({"model": model, "optimizer": optimizer}, buffer)
        assert b"tb_netdebug" not in buffer.getvalue()
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=False)["model"]
        assert torch.equal(model(inputs), loaded(inputs))
        assert torch.equal(model(inputs), pickle.loads(pickle.dumps(model))(inputs))
        monitor.step()

    found = recorded(logdir, model, optimizer, steps)
    assert 2 * 4 * 16 == found.samples(Kind.ACTIVATION, "0")[1].count


def test_an_output_can_be_saved(logdir: Path) -> None:
    """Outputs carry no hooks of ours that torch would warn of."""
    model = mlp()

    def steps(monitor: nd.Monitor) -> None:
        output = model(torch.randn(4, 6))
        torch.save(output, io.BytesIO())
        assert not output._backward_hooks
        monitor.step()

    recorded(logdir, model, None, steps)


def test_hooks_of_the_user_stay_in_order(logdir: Path) -> None:
    """Hooks that the user has put on, before and after, are called and stay when ours go."""
    model = mlp()
    called: list[str] = []
    model[0].register_forward_hook(lambda *_: called.append("early"))
    with no_warnings(), nd.watch(model, logdir=logdir, every=2, strict=True) as monitor:
        model[0].register_forward_hook(lambda *_: called.append("late"))
        for _ in range(4):
            model(torch.randn(2, 6))
            monitor.step()
    assert ["early", "late"] * 4 == called
    assert 2 == len(model[0]._forward_hooks)
