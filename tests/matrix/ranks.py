"""Two ranks that train together, for torchrun: `ranks.py MODE FOLDER [WRAPPER/PLACE/HANDLING ...]`.

Only the last rank has the NaN. What is left out is left out by all, as they ask each other first.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.matrix import outcome
from tests.matrix.subjects import HIDDEN, Net
from tests.matrix.training import BAD_STEP, OPTIONS, STEPS, batch

WRAPPERS = ("ddp", "fsdp")
PLACES = ("none", "input", "forward", "loss")
HANDLINGS = ("trained", "skipped")


class Noisy(Net):
    """Draws from two generators of its own and counts its calls."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.generator, self.numbers = torch.Generator().manual_seed(rank), random.Random(rank)
        self.norm = nn.LayerNorm(HIDDEN)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        noise = torch.rand(hidden.shape, generator=self.generator)
        return self.norm(hidden + 0.1 * noise * self.numbers.random())  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.calls, self.generator.get_state(), self.numbers.getstate()


def all_cells() -> Iterator[str]:
    for wrapper in WRAPPERS:
        for place in PLACES:
            for handling in HANDLINGS[: 1 if place == "none" else 2]:
                yield f"{wrapper}/{place}/{handling}"


def main(mode: str, folder: Path, cells: list[str]) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found = {}
    for cell in cells or list(all_cells()):
        found[cell] = trained(*cell.split("/"), mode=mode, folder=folder / "logs" / cell.replace("/", "-"))
        outcome.write(folder / f"rank-{rank}.json", found)
        print(rank, cell, outcome.digest(found[cell]["losses"]))  # noqa: T201
    dist.barrier()
    dist.destroy_process_group()


def trained(wrapper: str, place: str, handling: str, *, mode: str, folder: Path) -> dict[str, Any]:
    torch.manual_seed(1)
    rank = dist.get_rank()
    inner = Noisy(rank)
    model = wrapped(wrapper, inner)
    seed(100 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    monitor = None
    if mode in OPTIONS:
        import tb_netdebug as nd

        monitor = nd.watch(model, optimizer, logdir=folder, run="run", **OPTIONS[mode])
    losses, bad = [], []
    for step in range(STEPS):
        here = place if step == BAD_STEP and rank == dist.get_world_size() - 1 else ""
        optimizer.zero_grad()
        loss = model(batch(here)).square().mean()
        if here == "loss":
            loss = loss + torch.log(-1.0 - loss.detach().abs())
        losses.append(outcome.digest(loss))
        if not are_all_finite(loss):
            bad.append(step)
        loss.backward()
        if handling == "trained" or step not in bad:
            optimizer.step()
        if monitor is not None:
            monitor.step(loss=loss)
    if monitor is not None:
        monitor.close()
    return {"losses": losses, "bad": bad, **state_of(model, inner, optimizer)}


def seed(number: int) -> None:
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def wrapped(wrapper: str, inner: nn.Module) -> Any:
    if wrapper == "ddp":
        return nn.parallel.DistributedDataParallel(inner)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (inner.first, inner.last):
        fully_shard(layer, mesh=mesh)
    return fully_shard(inner, mesh=mesh)


def are_all_finite(loss: torch.Tensor) -> bool:
    """On every rank."""
    bad = (~torch.isfinite(loss.detach())).float()
    dist.all_reduce(bad)
    return not bool(bad)


def state_of(model: nn.Module, inner: Noisy, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Of a sharded parameter, this rank's part."""
    shards = {name: local(each) for name, each in model.named_parameters()}
    momenta = [
        local(value) for state in optimizer.state.values() for value in state.values() if value is not None
    ]
    return {
        "parameters": {name: outcome.digest(each) for name, each in shards.items()},
        "gradients": [outcome.digest(local(each.grad)) for each in model.parameters()],
        "optimizer": outcome.digest(momenta),
        "outside": outcome.digest(inner.outside()),
        "generators": outcome.of_generators(),
    }


def local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
