"""Choose the folder of a run: one for all of its processes."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from tb_netdebug.core.eventlog.writer.spool import local_folder
from tb_netdebug.recording.processes import same_for_all, store, this_one
from tb_netdebug.recording.run_sessions import (
    RunPlace,
    adopt_identity,
    join,
    known_identity,
    leave,
    place_for,
)

# How many runs of this process have asked for a folder, by folder and rank.
_given: dict[tuple[Path, int], int] = {}
# What torchrun and SLURM set for a launch, the same in all of its processes.
OF_A_LAUNCH = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")
RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def rank(environment: Mapping[str, str]) -> int:
    """Return the rank of this process.

    torch knows it once the process group is set up; before, torchrun and SLURM set it in the environment.
    """
    met = this_one()
    if met is not None:
        return met[0]
    for name in ("RANK", "SLURM_PROCID"):
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return 0


def run_place(
    logdir: str | Path | None,
    run: str | None,
    environment: Mapping[str, str],
    *,
    resume: bool = False,
    launch: str = "",
) -> RunPlace:
    """Return `logdir/run`, by default `runs/` and the time at which the run began.

    A name that is taken gets a suffix, -2, -3, …; with `resume` the run of that name continues. For a logdir
    in an object store it is the local folder that is sent there. `launch` identifies processes that belong
    together where no launcher does.
    """
    folder = local_folder(logdir if logdir is not None else "runs")
    name = run if run is not None else start_name(environment)
    if run is None and not is_distributed(environment):
        return RunPlace(unused(folder, name))
    try:
        owner = owner_of(folder / name, environment, launch)
        # A seat is needed only where two launches cannot be told apart.
        seat = "" if launch or not may_be_alike(environment) else f"rank-{rank(environment)}"
        return _agreed(folder, name, owner, seat, resume=resume)
    except OSError:
        return RunPlace(folder / name)  # the writer will say why nothing can be written there


def run_folder(logdir: str | Path | None, run: str | None, environment: Mapping[str, str]) -> Path:
    """Return the same folder for a run that is not resumed."""
    return run_place(logdir, run, environment).folder


def _agreed(folder: Path, name: str, owner: str, seat: str, *, resume: bool) -> RunPlace:
    """Return the place that the first process has found, for all that have met: they may share no disk."""
    if this_one() is None:
        return place_for(folder, name, owner, resume=resume, seat=seat)
    # A launch at the address of an earlier one is another launch.
    owner = same_for_all(owner if store() is None else f"{owner} {secrets.token_hex(8)}")
    mine = place_for(folder, name, owner, resume=resume)
    relative = str(mine.folder.relative_to(folder))
    told = json.loads(same_for_all(json.dumps([relative, mine.first_step, known_identity(mine.folder)])))
    place = RunPlace(folder / told[0], told[1])
    # The first process has chosen another folder: give ours back, and join there.
    if place.folder != mine.folder:
        leave(mine.folder, owner)
        join(place, owner, resume=resume)
    adopt_identity(place.folder, told[2])
    return place


def owner_of(folder: Path, environment: Mapping[str, str], launch: str = "") -> str:
    """Return a text that identifies this process or its launch, and counts its runs in this folder.

    Consecutive runs in one program are runs of their own.
    """
    own_rank = rank(environment)
    count = _given[folder, own_rank] = _given.get((folder, own_rank), 0) + 1
    if not is_distributed(environment):
        # The random part: two containers may give a process the same host name, pid and start.
        return f"{process_named(os.getpid())} #{count} {secrets.token_hex(8)}"
    told = [environment.get(name, "") for name in OF_A_LAUNCH]
    if launch or not may_be_alike(environment):
        told.append(launch or process_named(os.getppid()))
    return f"{'/'.join(told)} restart {environment.get(RESTARTS, '0')} #{count}"


def may_be_alike(environment: Mapping[str, str]) -> bool:
    """Return whether two launches may set the same variables: on several hosts no process has started all."""
    local, size = environment.get("LOCAL_WORLD_SIZE"), environment.get("WORLD_SIZE")
    is_on_one_host = local == size if local else "SLURM_JOB_ID" not in environment
    return is_distributed(environment) and not is_on_one_host


def process_named(pid: int) -> str:
    """Return a name of a process that stays unique when its pid is used again."""
    began = 0.0
    with suppress(psutil.Error):
        began = psutil.Process(pid).create_time()
    return f"{socket.gethostname()}:{pid}:{began:.2f}"


def told_of_suffix(place: RunPlace, run: str | None, how_to_resume: str) -> str:
    """Return a sentence about the suffix; "" if the run has the name that was asked for."""
    if run is None or place.folder.name == Path(run).name:
        return ""
    return (
        f"the run {run!r} exists already, so this one is called {place.folder.name!r}. ({how_to_resume} "
        f"continues {run!r}.)"
    )


def told_of_resuming(place: RunPlace) -> str:
    """Return a sentence about the step at which a run that is resumed continues."""
    name = place.folder.name
    if place.first_step:
        return f"the run {name!r} continues at step {place.first_step}."
    return f"the run {name!r} has no step yet to continue from: it begins at step 0."


def unused(folder: Path, name: str) -> Path:
    """Create and return a folder that is ours alone, even if two runs begin in the same second."""
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
    if this_one() is not None:
        return True
    size = environment.get("WORLD_SIZE", "1")
    return size.isdigit() and int(size) > 1


def start_name(environment: Mapping[str, str]) -> str:
    """Return date and time, the same in all processes that a launcher has started together.

    On several hosts, whose launchers start at different times, it is the same in all processes that have met.
    """
    began = launcher_start() if is_distributed(environment) else time.time()
    name = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(began))
    if this_one() is None:
        return name
    return same_for_all(name)


def launcher_start() -> float:
    try:
        return psutil.Process(os.getppid()).create_time()
    except psutil.Error:
        return time.time()
