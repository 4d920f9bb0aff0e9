"""Watchpoints, views and expressions on a real training with torch."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.tensors.expression import evaluate
from tb_netdebug.debugger.tensors.npy import piece_of
from tb_netdebug.debugger.trainer.breakpoints import Breakpoints
from tb_netdebug.debugger.trainer.tensor_view import view
from tb_netdebug.debugger.trainer.watchpoints import Watchpoints
from tb_netdebug.debugger.workbench import Needs
from tests.support.stepping import Script, end_step, stepped

WATCHED = (
    "batch", "input", "output", "label", "loss", "output_gradient", "gradient", "weight", "update", "state",
    "user", "scalar",
)  # fmt: skip


class Watching(Script):
    """Looks at its watchpoints at each place, as a session does."""

    def __init__(self, watchpoints: Watchpoints) -> None:
        super().__init__(lambda _, place: self.look(place))
        self.watchpoints = watchpoints
        self.step = 0
        self.found: list[str] = []

    def look(self, place: Place) -> None:
        hits = self.watchpoints.check(place, self.step, self.bench)
        self.found += [f"{place.phase}/{hit.tensor}" for hit in hits]
        self.bench.need(self.watchpoints.needs)


def trained(logdir: Path, watchpoints: Watchpoints, *, steps: int = 2) -> list[list[str]]:
    """What hits in each step of a small training."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    script = Watching(watchpoints)
    found = []
    with stepped(logdir, model, optimizer, script=script, needs=watchpoints.needs) as (_, monitor):
        for step in range(steps):
            script.step, script.found = step, []
            inputs, labels = torch.randn(8, 6), torch.arange(8) % 3
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)
            script.bench.keep_user("mine", torch.ones(2))
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
            script.look(Place("end"))
            script.bench.end_batch()
            found.append(script.found)
    return found


@pytest.mark.parametrize("kind", WATCHED)
def test_each_kind_is_seen(logdir: Path, kind: str) -> None:
    """In the first step or the second, alone: whatever it needs it asks for itself."""
    watchpoints = Watchpoints()
    watchpoints.set(kind=kind, statistic="norm", comparison=">", threshold=0)
    found = [name for step in trained(logdir, watchpoints) for name in step]
    assert found
    assert {kind} == {name.partition("/")[2].partition(":")[0] for name in found}
    assert watchpoints.as_list()[0]["complaint"] is None


def test_the_order_of_a_batch(logdir: Path) -> None:
    """Layers as they are called, gradients as backward comes to them, then the weights; once each."""
    watchpoints = Watchpoints()
    for kind in ("output", "loss", "output_gradient", "weight"):
        watchpoints.set(
            kind=kind, statistic="abs_mean", comparison=">", threshold=0, tensors=r"^[02]|loss|back"
        )
    first, second = trained(logdir, watchpoints)
    assert [
        "forward/output:0", "forward/output:2", "backward/loss:backward", "backward/output_gradient:2",
        "backward/output_gradient:0", "optimizer/weight:0.weight", "optimizer/weight:0.bias",
        "optimizer/weight:2.weight", "optimizer/weight:2.bias",
    ] == first  # fmt: skip
    assert [] == second


def test_weights_that_do_not_change(logdir: Path) -> None:
    """From the second step on the step before is known."""
    watchpoints = Watchpoints()
    watchpoints.set(kind="weight", statistic="change", comparison=">", threshold=1e-6, tensors=r"0\.weight$")
    found = trained(logdir, watchpoints, steps=3)
    assert ["optimizer/weight:0.weight"] == [name for step in found for name in step]
    assert watchpoints.as_list()[0]["complaint"] is None


def test_breakpoints_on_layers(logdir: Path) -> None:
    """Once a batch, forward and backward."""
    points = Breakpoints()
    points.set(layer="^2$")
    points.set(layer="^2$", phase="backward")
    points.set()
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    needs = Needs(phases=True, layers=points.wants_layers, backward=points.wants_backward)
    with stepped(logdir, model, needs=needs) as (script, monitor):
        loss = model(torch.randn(8, 6)).square().mean()
        loss.backward()
        end_step(script, monitor, loss)
    found = [(place.phase, place.module) for place in script.places if points.hit(place, 0)]
    assert [("forward", None), ("forward", "2"), ("backward", "2")] == found


def test_expressions_and_files_of_torch(logdir: Path) -> None:
    """Also of a type that NumPy has not, and of a tensor that lies in columns."""
    model = nn.Linear(5, 3).bfloat16()
    weight = model.weight.detach().float().numpy()
    with stepped(logdir, model) as (script, _):
        model.weight.data = model.weight.data.T.contiguous().T
        name = next(entry.name for entry in script.bench.entries("weight") if len(entry.shape) == 2)
        expected = float(np.linalg.norm(weight[1:] @ weight[0]))
        found = evaluate(f"norm(`{name}`[1:] @ `{name}`[0])", script.bench).summary().max
        readable = script.bench.tensor(name)
        _, data = piece_of(readable, slice="[:, ::2]", offset=0, most=1 << 20)
        shown = view(readable, slice="[-1]")
    assert pytest.approx(expected, rel=1e-3) == found
    np.testing.assert_array_equal(weight[:, ::2], np.load(io.BytesIO(data)))
    np.testing.assert_allclose(weight[-1], shown["cells"]["values"], rtol=1e-6)
    assert (15, "bfloat16") == (shown["statistics"]["count"], shown["dtype"])


LARGE = """
import os, resource, torch, tb_netdebug as nd
from tb_netdebug.frameworks.torch.stepping.workbench import TorchWorkbench
from tb_netdebug.debugger.tensors.expression import evaluate
from tb_netdebug.debugger.tensors.npy import piece_of
from tb_netdebug.debugger.trainer.tensor_view import view

model = torch.nn.Linear(1, 1, bias=False)
model.weight.data = torch.ones(16384, 16384).T


class Nobody:
    is_alert = True

    def visit(self, place):
        pass


with nd.watch(model, logdir=os.environ["FOLDER"], memory=False) as monitor:
    bench = monitor._adapter.workbench(Nobody())
    (name,) = [entry.name for entry in bench.entries("weight")]
    readable = bench.tensor(name)
    assert readable.entry.bytes == 1 << 30
    piece_of(readable, slice=None, offset=0, most=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    view(readable, slice="[:, 5]", cells=4096)
    for offset in (0, 500_000_001, (1 << 30) - 1000):
        piece_of(readable, slice=None, offset=offset, most=1 << 20)
    evaluate(f"mean(`{name}`) + max(`{name}`) + norm(`{name}`)", bench)
    evaluate(f"argmax(`{name}`[:64])", bench)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_large_tensor_is_looked_at_in_place(logdir: Path, run_python: Callable[..., str]) -> None:
    """Of 1 GB, statistics, cells, pieces of the file and expressions take less than 50 MB."""
    assert int(run_python(LARGE, env={"FOLDER": str(logdir)}).split()[-1]) < 50
