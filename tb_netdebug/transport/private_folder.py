"""Folders that only this user can look into: for sockets and tokens, and for files still to be sent."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what need not survive a reboot, and make it if it is missing.

    Sockets, locks and the files of running collectors lie in it. Raise OSError with a sentence, also when
    another user could look into the folder.
    """
    uid = os.getuid()
    for base in (environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"):
        if base and _is_own_folder(Path(base)):
            return made_private(Path(base, "netdebug"))
    return spool_folder()


def spool_folder() -> Path:
    """Return the folder for what may be large.

    The runtime folder often lies in memory, and is emptied when its user logs out.
    """
    return made_private(Path(tempfile.gettempdir(), f"netdebug-{os.getuid()}"))


def made_private(path: Path) -> Path:
    """Make the folder if it is missing and return it, accessible to this user alone.

    Raise OSError when it cannot be made, or when it is there and other users have access to it.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    # Not stat(): a link made by another user could lead anywhere.
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{path} is not a folder, so NetDebug does not use it. Remove it")
    if status.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user, so NetDebug does not use it")
    if status.st_mode & _OTHERS:
        raise PermissionError(f"{path} is open to other users, so NetDebug does not use it: chmod 700 {path}")
    return path


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return is_own and os.access(path, os.W_OK | os.X_OK)
