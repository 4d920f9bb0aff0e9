"""Where a run is written: one folder for all processes of it."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tb_netdebug.writer.spool import local_folder

# Of a distributed training: how many runs of this process have been given this name.
_given: dict[tuple[Path, int], int] = {}


def rank(environment: Mapping[str, str]) -> int:
    """The number of this process in a distributed run: torch knows it once the processes have met; before,
    torchrun and SLURM say it in the environment."""
    met = met_by_torch()
    if met is not None:
        return met[0]
    for name in ("RANK", "SLURM_PROCID"):
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return 0


def run_folder(logdir: str | Path | None, run: str | None, environment: Mapping[str, str]) -> Path:
    """`logdir/run`; by default `runs/` and the time at which the run began. For a logdir in an object store
    it is the folder on this machine that is sent there."""
    folder = local_folder(logdir if logdir is not None else "runs")
    if run is not None:
        return folder / run
    name = start_name(environment)
    if is_distributed(environment):
        return numbered(folder / name, rank(environment))
    return unused(folder, name)


def numbered(folder: Path, rank: int) -> Path:
    """One for each of the trainings that follow each other; all processes that train together count alike."""
    count = _given[folder, rank] = _given.get((folder, rank), 0) + 1
    return folder if count == 1 else folder.with_name(f"{folder.name}-{count}")


def unused(folder: Path, name: str) -> Path:
    """Two runs that begin in the same second are still two runs: the folder is made at once, and is ours."""
    for number in itertools.count(1):
        candidate = folder / (name if number == 1 else f"{name}-{number}")
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:
            break  # the writer will say why nothing can be written there
        return candidate
    return folder / name


def is_distributed(environment: Mapping[str, str]) -> bool:
    if met_by_torch() is not None:
        return True
    size = environment.get("WORLD_SIZE", "1")
    return size.isdigit() and int(size) > 1


def start_name(environment: Mapping[str, str]) -> str:
    """Date and time, the same in all processes that a launcher has started together; on several hosts, whose
    launchers start at different times, in all that have met."""
    began = launcher_start() if is_distributed(environment) else time.time()
    name = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(began))
    if met_by_torch() is None:
        return name
    from tb_netdebug.capture.pytorch.ranks.processes import same_for_all

    return same_for_all(name)


def met_by_torch() -> tuple[int, int] | None:
    """Rank and number of the processes, of a program that has brought them together by torch."""
    if "torch.distributed" not in sys.modules:
        return None
    from tb_netdebug.capture.pytorch.ranks.processes import this_one

    return this_one()


def launcher_start() -> float:
    try:
        return psutil.Process(os.getppid()).create_time()
    except psutil.Error:
        return time.time()
