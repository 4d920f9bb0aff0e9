"""A real training with a debugger, in a process of its own: it does between its batches what it is told.

For tests of what happens to it. Each process writes a line for each batch that it has finished into the file
`trained.RANK` of its folder: the loss, bit for bit. At its end it adds what has become of the weights.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.spoken_to import ROOT
from tests.support.streamed import Home, wait_for

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LARGE = 16_384


class ToldTraining:
    """`batches` are trained, or as many as come until `end`. Words for the process: "breakpoint", "pause",
    "sick" (the loss is NaN from then on). Without a `home` it is not watched."""

    def __init__(
        self, home: Home | None, folder: Path, *, batches: int = -1, launcher: Sequence[str] = (),
        **wishes: Any,
    ) -> None:  # fmt: skip
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([*(entry for entry in sys.path if entry), str(ROOT)])
        told = {"folder": str(folder), "batches": batches, "is_watched": home is not None, **wishes}
        self.process = subprocess.Popen(
            [sys.executable, *launcher, __file__, json.dumps(told)],
            env={
                **os.environ,
                **(home.env if home else {}),
                "PYTHONPATH": path,
                "OMP_NUM_THREADS": "1",
                "GRPC_VERBOSITY": "NONE",
            },
            stdin=subprocess.DEVNULL,
            stderr=(folder / "stderr").open("w"),
        )  # fmt: skip

    def __enter__(self) -> ToldTraining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            sys.stderr.write(self.said)
        self.process.terminate()  # torchrun ends its processes then
        self.process.wait()

    @property
    def logdir(self) -> Path:
        return self.folder / "logs"

    @property
    def said(self) -> str:
        return (self.folder / "stderr").read_text()

    def trained(self, rank: int = 0) -> list[str]:
        """A line for each batch."""
        path = self.folder / f"trained.{rank}"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_more(self, batches: int = 3, *, ranks: Sequence[int] = (0,)) -> None:
        """So many more."""
        wanted = {rank: len(self.trained(rank)) + batches for rank in ranks}
        wait_for(lambda: all(len(self.trained(rank)) >= wanted[rank] for rank in ranks))

    def tell(self, word: str) -> None:
        (self.folder / word).touch()

    def end(self) -> list[str]:
        """It ends as a training does that is done; its lines."""
        self.tell("end")
        assert 0 == self.process.wait(60), self.said
        return self.trained()


class _Words:
    """The other side; each word is heard once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def heard(self, word: str) -> bool:
        if not (self._folder / word).exists():
            return False
        (self._folder / word).unlink()
        return True


def main(
    folder: Path, batches: int, is_watched: bool, *, timeout_secs: int = 0, has_large: bool = False,
    pause_at_start: bool = False, on_finding: str = "ignore", debugger: bool | str = True,
    remote: str | None = None,
) -> None:  # fmt: skip
    import time
    from contextlib import nullcontext
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch import nn

    import tb_netdebug as nd

    rank = int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model: Any = nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)
    )
    if has_large:
        model.large = nn.Parameter(torch.ones(LARGE, LARGE), requires_grad=False)
        model.forward = lambda inputs: nn.Sequential(*model)(inputs)
    if "WORLD_SIZE" in os.environ:
        (folder / f"ready.{rank}").touch()
        wait_for(lambda: len([*folder.glob("ready.*")]) == int(os.environ["WORLD_SIZE"]))
        more: dict[str, Any] = {"timeout": timedelta(seconds=timeout_secs)} if timeout_secs else {}
        dist.init_process_group("gloo", **more)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(rank)
    words, number, factor = _Words(folder), 0, 1.0
    lines = (folder / f"trained.{rank}").open("w", buffering=1)
    options: dict[str, Any] = {"memory": False, "capsules": False, "on_finding": on_finding}
    options |= {"debugger": debugger, "remote": remote, "pause_at_start": pause_at_start}
    monitor: Any = (
        nd.watch(model, optimizer, logdir=folder / "logs", run="run", **options) if is_watched else None
    )
    is_enough = torch.zeros(1)
    with monitor or nullcontext():
        while number != batches and not is_enough.item():
            optimizer.zero_grad()
            inputs = torch.randn(5, 6)
            loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1)) * factor
            if monitor is not None and number % 2:
                monitor.tensor("mine", loss.detach() + torch.zeros(3))
            loss.backward()
            if words.heard("breakpoint"):
                nd.breakpoint()
            if words.heard("pause"):
                monitor.pause()
            if words.heard("sick"):
                factor = float("nan")
            optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
            lines.write(f"{float(loss.item()).hex()}\n")
            number += 1
            is_enough.fill_((folder / "end").exists())
            if dist.is_initialized():
                dist.all_reduce(is_enough)
            time.sleep(0.005)  # a small machine has others to run, too
    whole = sum(each.double().abs().sum() for name, each in model.named_parameters() if "large" not in name)
    lines.write(f"{float(whole).hex()} {float(torch.rand(1)).hex()}\n")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    main(Path(told.pop("folder")), **told)
