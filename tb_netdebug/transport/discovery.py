"""The collectors of this user on this machine: each leaves a file that only its user can read.

Trainers on the same machine find address, token and certificate there, so that nothing has to be set up.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tb_netdebug.transport.private_folder import runtime_folder, spool_folder
from tb_netdebug.transport.process import is_alive, stat_of

_NAME = re.compile(r"collector-([0-9]{1,5})\.json")
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FoundCollector:
    """A collector on this machine.

    `tls` is the fingerprint of its certificate, empty without TLS. `started` is that of `process.py`: it
    tells the process from a later one with the same number. `debugs` is true when a debugger listens there.
    """

    port: int
    token: str = field(repr=False)
    pid: int
    started: int
    logdir: str
    tls: str = ""
    debugs: bool = False

    @property
    def is_alive(self) -> bool:
        return is_alive(self.pid, self.started)


def publish(port: int, token: str, logdir: str, *, tls: str = "", debugs: bool = False) -> Path:
    """Write the file of a collector in this process, and delete those of dead ones.

    Raise OSError with a sentence when there is no private folder.
    """
    folder = runtime_folder()
    collectors()  # for its side effect: files of dead collectors are deleted
    own = stat_of(os.getpid())
    found = FoundCollector(port, token, os.getpid(), own.started if own else 0, logdir, tls, debugs)
    path, fresh = folder / f"collector-{port}.json", folder / f".collector-{port}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(found), file)
    fresh.replace(path)  # in one step, so that no reader finds half of it
    return path


def withdraw(path: Path) -> None:
    """Delete the file, unless another collector has replaced it since."""
    found = _read(path)
    if found is not None and found.pid == os.getpid():
        with suppress(OSError):
            path.unlink(missing_ok=True)


def find(port: int) -> FoundCollector | None:
    """Return the living collector of this user on that port."""
    return next((found for found in collectors() if found.port == port), None)


def collectors() -> list[FoundCollector]:
    """Return all living collectors, the newest first; delete the files of dead ones."""
    living: list[FoundCollector] = []
    for path in _files():
        found = _read(path)
        if found is None:
            continue
        if found.is_alive:
            living.append(found)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
    return sorted(living, key=lambda found: found.started, reverse=True)


def _files() -> list[Path]:
    """Return the files in both folders.

    Processes of one user may see different runtime folders: a desktop session has one, a cron job may not.
    """
    files: list[Path] = []
    for make in (runtime_folder, spool_folder):
        with suppress(OSError):  # a folder that others have access to is ignored
            files += sorted(path for path in make().iterdir() if _NAME.fullmatch(path.name))
    return list(dict.fromkeys(files))


def _read(path: Path) -> FoundCollector | None:
    """Return what the file says; None for a file that is not ours or not well-formed."""
    data = own_bytes(path, forbidden=0o077)
    return None if data is None else _parsed(data)


def own_bytes(path: Path, *, forbidden: int = 0) -> bytes | None:
    """Return the beginning of a regular file of this user.

    Return None for links, files of other users, and files with any of the `forbidden` mode bits.
    """
    try:
        # O_NONBLOCK, because opening a FIFO under this name would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & forbidden:
            return None
        return file.read(_MOST_BYTES)


def _parsed(data: bytes) -> FoundCollector | None:
    try:
        told = json.loads(data)
        return FoundCollector(
            port=int(told["port"]),
            token=str(told["token"]),
            pid=int(told["pid"]),
            started=int(told["started"]),
            logdir=str(told["logdir"]),
            tls=str(told["tls"]),
            debugs=told.get("debugs") is True,
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
