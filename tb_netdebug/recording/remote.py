"""A training that is watched from elsewhere: where its records wait, and what its run is called there."""

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
# What a collector takes: so many folders, each with a name of so many bytes.
MOST_PARTS, MOST_PART_BYTES = 16, 180
_UNFIT = frozenset({"Cc", "Cs", "Zl", "Zp"})


def remote_of(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The collector's address: what was given, or else what the environment says."""
    return given if given is not None else environment.get(VARIABLE) or None


def waiting_room() -> Path:
    """The folder for runs that are recorded for a collector alone."""
    from tb_netdebug.transport.private_folder import made_private, spool_folder

    try:
        return made_private(spool_folder() / "runs")
    except OSError:  # somebody else has taken the name
        return Path(tempfile.mkdtemp(prefix="netdebug-"))


def sessions_kept_in(run_dir: Path) -> Path:
    """The run's own folder; of one that is only sent, and of which nothing stays there, one beside."""
    room = Path(tempfile.gettempdir(), f"netdebug-{os.getuid()}", "runs")
    with suppress(ValueError):
        return room.with_name("sessions") / run_dir.relative_to(room)
    return run_dir


def link_of(settings: Settings, run_dir: Path, rank: int) -> Link | None:
    """The way to the agent, when the training has one. Raises OSError or RuntimeError."""
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
        # A callback that finds its recording again begins no session.
        resumes=sessions[-1].resumes if sessions else settings.run is not None,
    )


def name_there(run_dir: Path, settings: Settings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """As here, below the logdir; a name that nobody has chosen gets that of the host, where another one could
    have drawn the same. The processes of a distributed training share theirs anyway."""
    from tb_netdebug.recording.run_folder import is_distributed

    parts = [fit(part) for part in below(run_dir.absolute(), settings.folder)]
    if settings.run is None and not is_distributed(environment):
        parts[-1] = fit(f"{parts[-1]}-{host_name()}")
    return tuple(parts[-MOST_PARTS:])


def below(run_dir: Path, folder: str | Path | None) -> tuple[str, ...]:
    """The folders from the logdir to the run, or else from the current folder, or else the last one."""
    for base in (Path(folder if folder is not None else "runs").expanduser().absolute(), Path.cwd()):
        with suppress(ValueError):
            parts = run_dir.relative_to(base).parts
            if parts and ".." not in parts:
                return parts
    return (run_dir.name or "run",)


def fit(part: str) -> str:
    """Without what no collector takes for the name of a folder."""
    kept = "".join("_" if each in "/\\" or unicodedata.category(each) in _UNFIT else each for each in part)
    return kept.encode()[:MOST_PART_BYTES].decode(errors="ignore") or "_"


def host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:64] or "host"


def error_that_ends() -> str:
    """The class of the exception because of which a recording is closed, when there is one."""
    kind = sys.exc_info()[0]
    if kind is None and not hasattr(sys, "ps1"):  # in a session it may be long over
        kind = getattr(sys, "last_type", None)
    return "" if kind is None or issubclass(kind, SystemExit) else kind.__name__


def say(sentence: str) -> None:
    """To the terminal, if there still is one."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"NetDebug: {visible_lines(sentence)}\n")
        sys.stderr.flush()
