"""A NaN that one of several processes makes, and that averaged gradients carry to all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tb_netdebug as nd
from tests.support.loops import run_script

PROGRAM = """
import json, sys
import torch
import torch.distributed as dist
from torch import nn
import tb_netdebug as nd

place = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.sign = 1.0

    def forward(self, x):
        return self.last(torch.log(self.sign * (self.first(x).abs() + 1.0)))

net = Net()
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(rank)
with nd.watch(model, optimizer, every=1, on_finding="ignore", logdir="logs", run="run") as monitor:
    for step in range(12):
        is_bad = rank == 1 and step == 5
        net.sign = -1.0 if is_bad and place == "forward" else 1.0
        optimizer.zero_grad()
        output = model(torch.randn(8, 6))
        target = torch.full((8, 3), float("nan") if is_bad and place == "loss" else 0.0)
        loss = nn.functional.mse_loss(output, target)
        loss.backward()
        optimizer.step()
        monitor.step(loss)
if rank == 0:
    with open("findings.json", "w") as file:
        json.dump([each.as_dict() for each in monitor.findings], file)
dist.destroy_process_group()
"""
EXPECTED = {
    "forward": ("nonfinite-activation", "made NaN at step 5 on rank 1 by log at train.py:"),
    "loss": ("nonfinite-loss", "The loss on rank 1 is NaN (not a number) at step 5."),
}


@pytest.mark.parametrize("place", EXPECTED)
def test_the_rank_that_made_it_is_named(place: str, tmp_path: Path) -> None:
    """First, with operation, line and capsule; the others' gradients are its consequence."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run_script(script, *launcher, after=(place,))
    live = json.loads((tmp_path / "findings.json").read_text())
    (run,) = nd.check(tmp_path / "logs").as_dict()["runs"]
    for findings in (live, run["findings"]):
        assert_told(findings, *EXPECTED[place])


def assert_told(findings: list[dict[str, Any]], rule: str, beginning: str) -> None:
    by_rule = {each["rule"]: each for each in findings}
    first = findings[0]
    assert rule == first["rule"]
    assert beginning in first["message"]
    assert 1 == first["evidence"]["rank"]
    assert "step-5-rank1.pt" in first["advice"]
    gradient = by_rule["nonfinite-gradient"]
    assert rule == gradient["cause"]
    assert "They came from rank 1" in gradient["message"]
