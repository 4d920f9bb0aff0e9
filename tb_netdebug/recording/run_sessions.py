"""Decide who writes into a run's folder: runs of one name stay apart, processes of one run come together.

Each time a run is begun or resumed it gets a session, a small hidden file that is created exclusively and
never changed. It names its owner, so that all ranks of one launch find the same folder without communicating,
and the step that it begins with. Where launches may look alike, each rank takes a seat in the session, an
empty file beside it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER, SUFFIX
from tb_netdebug.recording.remote import sessions_kept_in
from tb_netdebug.transport.identity import derived, drawn, identity_in, keep, replace

PREFIX = ".netdebug-session-"
_NUMBER = re.compile(re.escape(PREFIX) + r"([0-9]{1,9})")
_MOST_BYTES = 4096
OVER = "over"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The folder of a run, and the first step of this session."""

    folder: Path
    first_step: int = 0


@dataclass(frozen=True, slots=True)
class RunSession:
    """One session of a run.

    `owner` is the process, or the launch of many processes, that the session belongs to. `resumes` is set if
    the run was to continue, even where there was nothing of it.
    """

    number: int
    owner: str
    first_step: int
    resumes: bool = False


def place_for(folder: Path, name: str, owner: str, *, resume: bool, seat: str = "") -> RunPlace:
    """Return `folder/name`, or the first of `name-2`, `name-3`, … that is free or the owner's already.

    With `resume` the run of this very name continues after its last step. Where launches may look alike,
    `seat` names this process within its launch; a process that finds its seat taken belongs to another
    launch. Raises OSError.
    """
    for number in itertools.count(1):
        candidate = folder / name
        if number > 1:
            candidate = candidate.with_name(f"{candidate.name}-{number}")
        place = _joined(candidate, f"{owner} {candidate.name}" if seat else owner, seat, resume=resume)
        if place is not None:
            return place
    raise AssertionError


def join(place: RunPlace, owner: str, *, resume: bool) -> None:
    """Enter a session into a folder that others have agreed on. Raises OSError."""
    sessions = sessions_in(place.folder)
    if not sessions or sessions[-1].owner != owner:
        _begin(place.folder, RunSession(_next_number(place.folder), owner, place.first_step, resume))


def leave(folder: Path, owner: str) -> None:
    """Withdraw a session from a folder that is not used after all."""
    for session in sessions_in(folder):
        if session.owner == owner:
            with suppress(OSError):
                (sessions_kept_in(folder) / f"{PREFIX}{session.number}").unlink()
    with suppress(OSError):
        folder.rmdir()  # only when it is empty


def sessions_in(folder: Path) -> list[RunSession]:
    """Return the sessions in the order in which they began; an unreadable one has no owner."""
    return [_read(folder, number) for number in _numbers(folder)]


def identity_of(folder: Path) -> str:
    """Return the text that distinguishes this run from others of its name, wherever it is received.

    It is the same in all processes and sessions of the run, and is kept beside the sessions for later ones.
    """
    kept_in = sessions_kept_in(folder)
    known = known_identity(folder)
    if not known and kept_in != folder:
        return drawn()  # only one process, and nothing of the run stays here
    identity = known or drawn()
    with suppress(OSError), _opened(kept_in) as descriptor:
        identity = keep(descriptor, identity) or identity
    return identity


def known_identity(folder: Path) -> str:
    """Return the identity that is kept, else one derived from the first session's owner, else ""."""
    with suppress(OSError), _opened(sessions_kept_in(folder)) as descriptor:
        if kept := identity_in(descriptor):
            return kept
    sessions = sessions_in(folder)
    return derived(sessions[0].owner) if sessions and sessions[0].owner else ""


def adopt_identity(folder: Path, identity: str) -> None:
    """Store the identity that others have agreed on. Raises OSError."""
    if identity != known_identity(folder):
        with _opened(sessions_kept_in(folder)) as descriptor:
            replace(descriptor, identity)


def has_records(folder: Path) -> bool:
    """Return whether the folder has event files of ours."""
    return any(name.endswith(SUFFIX) for each in (folder, folder / SIDE_FOLDER) for name in _names(each))


def next_step(folder: Path) -> int:
    """Return the step after the last recorded one, of any rank; 0 if there is none."""
    from tb_netdebug.core.eventlog.reader.logdir import LogDir
    from tb_netdebug.core.eventlog.reader.recording import Recording
    from tb_netdebug.core.eventlog.writer.spool import spool_of

    # The recording to continue may lie in an object store, of which `folder` is the local spool.
    spool = spool_of(folder.absolute())
    logdir = LogDir([("", str(folder) if spool is None else spool.target(folder.absolute()))])
    logdir.refresh()
    if "." not in logdir.runs:
        return 0
    run = logdir.open(".")
    run.refresh()
    content = run._content
    if not isinstance(content, Recording):
        return 0
    return 1 + max((piece.last for rank in content.ranks for piece in content.pieces(rank)), default=-1)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _joined(candidate: Path, owner: str, seat: str, *, resume: bool) -> RunPlace | None:
    """Return the owner's place in this folder; None if the folder belongs to someone else."""
    # Repeat when another process creates the session, or takes the seat, first.
    while True:
        sessions = sessions_in(candidate)
        if sessions and sessions[-1].owner == owner and _sits_down(candidate, sessions[-1].number, seat):
            return RunPlace(candidate, sessions[-1].first_step)
        is_new = not sessions and not has_records(candidate)
        if not (is_new or resume):
            return None
        first_step = 0 if is_new else next_step(candidate)
        number = _next_number(candidate)
        if _begin(candidate, RunSession(number, owner, first_step, resume)) and _sits_down(
            candidate, number, seat
        ):
            return RunPlace(candidate, first_step)


def _sits_down(folder: Path, number: int, seat: str) -> bool:
    """Take a seat in the session; return whether it was free. Without a seat anyone may join.

    Once two processes have asked for the same seat, the session is over: no process of the other launch joins
    it.
    """
    kept_in = sessions_kept_in(folder)
    if not seat:
        return True
    if (kept_in / f"{PREFIX}{number}-{OVER}").exists():
        return False
    try:
        _put(kept_in / f"{PREFIX}{number}-{seat}")
    except FileExistsError:
        with suppress(OSError):
            _put(kept_in / f"{PREFIX}{number}-{OVER}")
        return False
    except OSError:  # a folder that cannot be written to is reported elsewhere
        return True
    return True


def _put(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _begin(folder: Path, session: RunSession) -> bool:
    """Create the session's file; return False if another process was faster.

    The link makes the file appear under its name with its whole content.
    """
    folder = sessions_kept_in(folder)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{PREFIX}{session.number}"
    told = {"owner": session.owner, "first_step": session.first_step, "resumes": session.resumes}
    written = json.dumps(told).encode()
    fresh = folder / f"{PREFIX}new-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        fresh.write_bytes(written)
        os.link(fresh, target)
    except FileExistsError:
        return False
    except OSError:
        return _begin_without_links(target, written)
    finally:
        with suppress(OSError):
            fresh.unlink()
    return True


def _begin_without_links(target: Path, written: bytes) -> bool:
    """Create the session's file on a file system that has no links."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as file:
        file.write(written)
    return True


def _read(folder: Path, number: int) -> RunSession:
    told: Any = None
    with suppress(OSError, ValueError), (sessions_kept_in(folder) / f"{PREFIX}{number}").open("rb") as file:
        told = json.loads(file.read(_MOST_BYTES))
    if not isinstance(told, dict):
        return RunSession(number, "", 0)
    owner, first = told.get("owner"), told.get("first_step")
    return RunSession(
        number,
        owner if isinstance(owner, str) else "",
        max(first, 0) if isinstance(first, int) else 0,
        told.get("resumes") is True,
    )


def _numbers(folder: Path) -> list[int]:
    names = _names(sessions_kept_in(folder))
    return sorted(int(found[1]) for name in names if (found := _NUMBER.fullmatch(name)))


def _next_number(folder: Path) -> int:
    return max(_numbers(folder), default=0) + 1


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
