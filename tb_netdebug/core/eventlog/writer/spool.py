"""Logdirs in object stores: what is recorded for one waits in a folder on this machine until it is there.

Stores cannot append, so a run there is many objects, each of them a whole event file (see `shipping`). The
folder notes which store it belongs to: whoever writes into it writes for the store, in whatever way it has
come to its path, and what a killed training has left is found by the next one.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from tb_netdebug.core.start_folder import as_typed

NOTE = "store.url"
_URL = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LONGEST_NOTE = 4096


@dataclass(frozen=True, slots=True)
class Spool:
    """A folder whose content belongs below a URL."""

    folder: Path
    url: str

    def target(self, path: Path) -> str:
        return f"{self.url}/{path.relative_to(self.folder).as_posix()}"


def is_url(root: str) -> bool:
    """Whether this is a place behind fsspec; files of this machine are none."""
    return bool(_URL.match(root)) and not root.lower().startswith("file://")


def local_folder(logdir: str | Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder to write to, whatever folder the program changes to: the logdir itself, or the one where the
    records for a store wait.

    Raises OSError when there is no place for that one.
    """
    text = str(logdir)
    if not is_url(text):
        path = text[len("file://") :] if text.lower().startswith("file://") else text
        return Path(path).expanduser().absolute()
    url = text.rstrip("/")
    words = re.sub(r"[^A-Za-z0-9]+", "-", url.partition("://")[2]).strip("-")[:40]
    name = f"{words}-{blake2b(url.encode(), digest_size=6).hexdigest()}"
    folder = made(Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser(), name)
    (folder / NOTE).write_text(url, encoding="utf-8")
    return folder


def made(cache: Path, name: str) -> Path:
    """Nobody else looks into it. A home that cannot be written to has the machine's own place instead."""
    places = (cache / "netdebug/stores", Path(tempfile.gettempdir(), f"netdebug-{os.getuid()}", "stores"))
    problem: OSError | None = None
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = place / name
            folder.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            problem = problem or error
        else:
            return folder
    raise problem or OSError("there is no place")


def spool_of(run_dir: Path) -> Spool | None:
    """The spool that a run's folder lies in; None of ordinary logdirs."""
    for folder in run_dir.parents:
        if folder.parent.name != "stores" or folder.parent.parent.name[:8] != "netdebug":
            continue
        with suppress(OSError):
            return Spool(folder, (folder / NOTE).read_text(encoding="utf-8")[:_LONGEST_NOTE])
    return None


def shown(path: Path) -> str:
    """For sentences: where it will be found."""
    spool = spool_of(path / "run")
    return as_typed(path) if spool is None else spool.target(path).removesuffix("/.")
