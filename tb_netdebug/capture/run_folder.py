"""Where a run is written: one folder for all processes of it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from pathlib import Path

import psutil


def rank(environment: Mapping[str, str]) -> int:
    """The number of this process in a distributed run; torchrun and SLURM say it in the environment."""
    for name in ("RANK", "SLURM_PROCID"):
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return 0


def run_folder(logdir: str | Path | None, run: str | None, environment: Mapping[str, str]) -> Path:
    """`logdir/run`; by default `runs/` and the time at which the run began."""
    folder = Path(logdir if logdir is not None else "runs").expanduser()
    if run is not None:
        return folder / run
    name = start_name(environment)
    return folder / name if is_distributed(environment) else unused(folder, name)


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
    size = environment.get("WORLD_SIZE", "1")
    return size.isdigit() and int(size) > 1


def start_name(environment: Mapping[str, str]) -> str:
    """Date and time, the same in all processes that a launcher has started together."""
    began = launcher_start() if is_distributed(environment) else time.time()
    return time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(began))


def launcher_start() -> float:
    try:
        return psutil.Process(os.getppid()).create_time()
    except psutil.Error:
        return time.time()
