"""Spool folders for logdirs in object stores: records wait there, on this machine, until they are uploaded.

Stores cannot append, so a run there consists of many objects, each of them a whole event file (see
`shipping`). The folder holds a note of the store it belongs to. So its path is all that a writer needs, and
the next run finds what a killed one has left.
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
    """A local folder whose content is to be uploaded to a URL."""

    folder: Path
    url: str

    def target(self, path: Path) -> str:
        return f"{self.url}/{path.relative_to(self.folder).as_posix()}"


def is_url(root: str) -> bool:
    """Return whether this is a URL for fsspec; `file://` URLs count as local paths."""
    return bool(_URL.match(root)) and not root.lower().startswith("file://")


def local_folder(logdir: str | Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the absolute folder to write to: the logdir itself or, for a URL, its spool folder.

    A later chdir of the program does not matter. Raises OSError if no spool folder can be made.
    """
    text = str(logdir)
    if not is_url(text):
        path = text[len("file://") :] if text.lower().startswith("file://") else text
        return Path(path).expanduser().absolute()
    url = text.rstrip("/")
    # The words are for people who look into the folder; the hash keeps different stores apart.
    words = re.sub(r"[^A-Za-z0-9]+", "-", url.partition("://")[2]).strip("-")[:40]
    name = f"{words}-{blake2b(url.encode(), digest_size=6).hexdigest()}"
    folder = made(Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser(), name)
    (folder / NOTE).write_text(url, encoding="utf-8")
    return folder


def made(cache: Path, name: str) -> Path:
    """Make a spool folder that only this user can read, in the cache or else in the temporary folder."""
    # Windows knows no number of the user; its temporary folder belongs to the user anyway.
    own = f"netdebug-{os.getuid()}" if hasattr(os, "getuid") else "netdebug"
    places = (cache / "netdebug/stores", Path(tempfile.gettempdir(), own, "stores"))
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
    """Return the spool that a run's folder lies in, or None for an ordinary logdir."""
    # As `made` builds them: .../netdebug/stores/NAME or .../netdebug-UID/stores/NAME.
    for folder in run_dir.parents:
        if folder.parent.name != "stores" or folder.parent.parent.name[:8] != "netdebug":
            continue
        with suppress(OSError):
            return Spool(folder, (folder / NOTE).read_text(encoding="utf-8")[:_LONGEST_NOTE])
    return None


def shown(path: Path) -> str:
    """Return how messages name the path: as typed, or as the URL to which it will be uploaded."""
    # `spool_of` looks at the parents of a path only, so ask for a path inside.
    spool = spool_of(path / "run")
    return as_typed(path) if spool is None else spool.target(path).removesuffix("/.")
