"""What goes wrong between processes is found while they train, from their files, and where they are sent."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tb_netdebug as nd
from tests.support.collector_process import CollectorProcess
from tests.support.loops import run_script
from tests.support.streamed import Home, contents, seen, wait_for

ABOUT_RANKS = {"replica-divergence", "straggler-rank", "duplicate-batches-across-ranks"}
Told = list[tuple[str, set[str]]]
FAULTS: dict[str, Told] = {
    "none": [],
    "not wrapped": [("replica-divergence", {"0.weight", "0.bias", "2.weight", "2.bias"})],
    "one is slow": [("straggler-rank", {"rank 1"})],
    "no sampler": [("duplicate-batches-across-ranks", {"rank 1"})],
}
# A program under torchrun, with the fault that it is told.
PROGRAM = """
import json, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
import tb_netdebug as nd

fault = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank if fault == "not wrapped" else 0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
if fault != "not wrapped":
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(0)
data = TensorDataset(torch.randn(640, 6), torch.randint(3, (640,)))
sampler = None if fault == "no sampler" else DistributedSampler(data)
loader = DataLoader(data, batch_size=8 if sampler else 16, sampler=sampler)
monitor = nd.watch(model, optimizer, every=1, on_finding="ignore", logdir="logs", run="run")
for epoch in range(2):
    if sampler:
        sampler.set_epoch(epoch)
    for inputs, labels in loader:
        if fault == "one is slow" and rank == 1:
            time.sleep(0.03)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        monitor.step(loss)
monitor.close()
if rank == 0:
    found = [[each.rule, list(each.where)] for each in monitor.findings]
    with open("findings.json", "w") as file:
        json.dump(found, file)
dist.destroy_process_group()
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with Home() as made:
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(tempfile, "tempdir", str(made.temporary))
        yield made


def trained(folder: Path, fault: str) -> Told:
    """By two processes; what rank 0 had found of them when it was over."""
    script = folder / "train.py"
    script.write_text(PROGRAM)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run_script(script, *launcher, after=(fault,))
    found = json.loads((folder / "findings.json").read_text())
    return [(rule, set(where)) for rule, where in found if rule in ABOUT_RANKS]


def judged(logdir: Path) -> Told:
    (run,) = nd.check(logdir).as_dict()["runs"]
    return [(each["rule"], set(each["where"])) for each in run["findings"] if each["rule"] in ABOUT_RANKS]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_processes_is_found(tmp_path: Path, fault: str) -> None:
    """While they train and from the files, with the right name and place; and none where there is none."""
    assert FAULTS[fault] == trained(tmp_path, fault)
    assert FAULTS[fault] == judged(tmp_path / "logs")


def test_the_processes_of_a_host_are_sent_by_one_agent(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrives is one run with both of them, in which the same is found."""
    with CollectorProcess(tmp_path / "there") as collector:
        monkeypatch.setenv("NETDEBUG_REMOTE", collector.address)
        trained(tmp_path, "no sampler")
        wait_for(lambda: not home.notes())
        assert contents(tmp_path / "logs") == contents(collector.root)
        assert FAULTS["no sampler"] == judged(collector.root)
        witnesses = seen(collector.root / "run")
        assert [0, 1] == sorted({each.rank for each in witnesses})
        assert all(each.ending.well for each in witnesses if each.ending)
        assert 1 == len(list(home.run.glob("netdebug/agent-*.lock")))
