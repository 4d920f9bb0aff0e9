"""Several processes train one model: each rank writes its own file, and one run has them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.core.records.step import Kind
from tests.support.loops import OF_PARAMETERS, Recorded, run_script

STEPS = 4

# A program under torchrun; WRAP makes the model of it. Each rank prints what it has computed.
PROGRAM = """
import json, os, sys, warnings
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
import tb_netdebug as nd

def wrap(model):
    kind = sys.argv[1]
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard
    for layer in (model[0], model[2]):
        fully_shard(layer)
    return fully_shard(model)

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    told = []
    losses = {}
    for is_watched in (False, True):
        torch.manual_seed(5)
        model = wrap(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        torch.manual_seed(rank)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            monitor = nd.watch(model, optimizer, logdir="logs", every=1, strict=True) if is_watched else None
            losses[is_watched] = []
            for _ in range(4):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(3, (5,)))
                loss.backward()
                optimizer.step()
                losses[is_watched].append(loss.item())
                if monitor is not None:
                    monitor.step(loss)
            if monitor is not None:
                monitor.close()
        told = [str(each.message) for each in caught if "NetDebug" in str(each.message)]
    weight = next(model.parameters()).detach()
    local = weight.to_local() if hasattr(weight, "to_local") else weight
    result = {
        "rank": rank, "run": monitor.run_dir.name, "losses": losses[True],
        "equal": losses[False] == losses[True],
        "told": told, "weights": local.numel(), "sum": local.double().sum().item(),
    }
    with open(f"rank{rank}.json", "w") as file:
        json.dump(result, file)
    dist.destroy_process_group()

main()
"""


def run_of_two(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    """What both ranks say in the end."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run_script(script, *launcher, after=(kind,))
    return [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, list[dict[str, Any]]]:
    """A training by two processes, run once for all tests of its kind."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder / "logs", run_of_two(folder, request.param)


Finished = tuple[str, Path, list[dict[str, Any]]]


def test_losses_are_those_without_watching(finished: Finished) -> None:
    """On both ranks bit for bit, and nothing is said."""
    _, _, ranks = finished
    assert [True, True] == [rank["equal"] for rank in ranks]
    assert [[], []] == [rank["told"] for rank in ranks]


def test_ranks_share_a_run_and_each_has_its_file(finished: Finished) -> None:
    """Both find the same folder by themselves; rank 1 writes where TensorBoard does not look."""
    _, logdir, ranks = finished
    assert [ranks[0]["run"]] * 2 == [rank["run"] for rank in ranks]
    assert [ranks[0]["run"]] == [folder.name for folder in logdir.iterdir()]
    run = logdir / ranks[0]["run"]
    files = [file.parent.relative_to(run).as_posix() for file in Recorded(run).run.files]
    assert [".", "plugins/netdebug"] == files


def test_each_rank_recorded_its_own_steps(finished: Finished) -> None:
    """The losses that it computed, and every statistic of every parameter."""
    _, logdir, ranks = finished
    for rank in ranks:
        found = Recorded(logdir / rank["run"], rank["rank"])
        assert list(range(STEPS)) == found.steps
        assert rank["losses"] == found.series("loss")
        assert {"0", "1", "2"} == found.names(Kind.ACTIVATION)
        for kind in OF_PARAMETERS:
            assert {"0.weight", "0.bias", "2.weight", "2.bias"} == found.names(kind)
            assert list(range(STEPS)) == list(found.samples(kind, "0.weight"))


def test_parts_become_a_whole(finished: Finished) -> None:
    """Rank 0 has the whole of a sharded weight, the other its part; of a replicated one both the whole."""
    kind, logdir, ranks = finished
    whole, part = (
        Recorded(logdir / rank["run"], rank["rank"]).samples(Kind.WEIGHT, "0.weight")[STEPS - 1]
        for rank in ranks
    )
    assert (48, ranks[1]["weights"]) == (whole.count, part.count)
    assert ranks[1]["sum"] == pytest.approx(part.sum, rel=1e-12)
    total = sum(rank["sum"] for rank in ranks) / {"ddp": 2, "fsdp": 1}[kind]
    assert total == pytest.approx(whole.sum, rel=1e-9)


def test_the_norm_of_all_parts_is_recorded(finished: Finished) -> None:
    """In the steps that were merged, and here these are all."""
    kind, logdir, ranks = finished
    if kind == "ddp":
        assert "ranks/merged" not in Recorded(logdir / ranks[0]["run"]).scalars
        return
    found = [Recorded(logdir / rank["run"], rank["rank"]) for rank in ranks]
    parts = [each.series("gradient_norm") for each in found]
    assert [2.0] * STEPS == found[0].series("ranks/merged")
    assert [(a * a + b * b) ** 0.5 for a, b in zip(*parts, strict=True)] == pytest.approx(
        found[0].series("ranks/gradient_norm"), rel=1e-6
    )


def test_gradients_of_replicas_are_equal(finished: Finished) -> None:
    """DDP averages them before the optimizer steps; shards differ."""
    kind, logdir, ranks = finished
    norms = [Recorded(logdir / rank["run"], rank["rank"]).series("gradient_norm") for rank in ranks]
    assert (kind == "ddp") == (norms[0] == norms[1])
