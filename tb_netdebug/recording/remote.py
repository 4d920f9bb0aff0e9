"""A run that is watched from another machine: where its records wait, and its name over there."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tb_netdebug.core.records.visible import visible_lines

if TYPE_CHECKING:
    from tb_netdebug.recording.settings import Settings
    from tb_netdebug.transport.link import Link

VARIABLE = "NETDEBUG_REMOTE"
# What a collector accepts: this many folders, each with a name of this many bytes.
MOST_PARTS, MOST_PART_BYTES = 16, 180
_UNFIT = frozenset({"Cc", "Cs", "Zl", "Zp"})


def remote_of(given: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the collector's address: the one given, or else the one in the environment."""
    return given if given is not None else environment.get(VARIABLE) or None


def waiting_room() -> Path:
    """Return the folder for runs that are recorded for a collector only."""
    from tb_netdebug.transport.private_folder import made_private, spool_folder

    try:
        return made_private(spool_folder() / "runs")
    except OSError:  # someone else owns that name
        return Path(tempfile.mkdtemp(prefix="netdebug-"))


def sessions_kept_in(run_dir: Path) -> Path:
    """Return the folder that keeps a run's sessions: its own, or one beside it for a run that is only sent.

    Nothing of a run that is only sent stays in its own folder.
    """
    room = Path(tempfile.gettempdir(), f"netdebug-{os.getuid()}", "runs")
    with suppress(ValueError):
        return room.with_name("sessions") / run_dir.relative_to(room)
    return run_dir


def link_of(settings: Settings, run_dir: Path, rank: int) -> Link | None:
    """Return the link to the agent, if the run has a collector. Raises OSError or RuntimeError."""
    if settings.remote is None:
        return None
    from tb_netdebug.recording.run_sessions import identity_of, sessions_in
    from tb_netdebug.transport.link import Link

    sessions = sessions_in(run_dir)
    return Link.start(
        remote=settings.remote,
        run_dir=run_dir,
        run=name_there(run_dir, settings, os.environ),
        rank=rank,
        is_spool=settings.is_spooled,
        takes_control=bool(settings.debugger),
        notice=say,
        identity=identity_of(run_dir),
        # A callback that finds its recording again starts no session.
        resumes=sessions[-1].resumes if sessions else settings.run is not None,
    )


def name_there(run_dir: Path, settings: Settings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the run's name at the collector: the same as here, below the logdir.

    A name that nobody chose gets the host's name appended, because another host could have drawn the same
    one. The processes of a distributed run share theirs anyway.
    """
    from tb_netdebug.recording.run_folder import is_distributed

    parts = [fit(part) for part in below(run_dir.absolute(), settings.folder)]
    if settings.run is None and not is_distributed(environment):
        parts[-1] = fit(f"{parts[-1]}-{host_name()}")
    return tuple(parts[-MOST_PARTS:])


def below(run_dir: Path, folder: str | Path | None) -> tuple[str, ...]:
    """Return the folders from the logdir to the run, else from the current folder, else the last one."""
    for base in (Path(folder if folder is not None else "runs").expanduser().absolute(), Path.cwd()):
        with suppress(ValueError):
            parts = run_dir.relative_to(base).parts
            if parts and ".." not in parts:
                return parts
    return (run_dir.name or "run",)


def fit(part: str) -> str:
    """Return the name in a form that any collector accepts for a folder."""
    kept = "".join("_" if each in "/\\" or unicodedata.category(each) in _UNFIT else each for each in part)
    return kept.encode()[:MOST_PART_BYTES].decode(errors="ignore") or "_"


def host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:64] or "host"


def error_that_ends() -> str:
    """Return the class name of the exception that ends a recording; "" if there is none."""
    kind = sys.exc_info()[0]
    if kind is None and not hasattr(sys, "ps1"):  # in an interactive session it may be long over
        kind = getattr(sys, "last_type", None)
    return "" if kind is None or issubclass(kind, SystemExit) else kind.__name__


def say(sentence: str) -> None:
    """Write a sentence to the terminal, if there still is one."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"NetDebug: {visible_lines(sentence)}\n")
        sys.stderr.flush()
