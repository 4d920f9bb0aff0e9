"""Identify a run, whatever it is called, by a small file in its folder, where it is written and received.

An identity is no secret and permits nothing. Those of others are only ever compared.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress

NAME = ".netdebug-identity"
_FORM = re.compile(r"[0-9a-f]{32}", re.ASCII)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # somebody may have put a pipe there
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def drawn() -> str:
    """Return an identity that nothing else has."""
    return secrets.token_hex(16)


def derived(owner: str) -> str:
    """Return the identity that all processes of this owner work out alike."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


def is_identity(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def identity_in(folder: int) -> str | None:
    """Return the identity in an open folder; None without one, "" when it cannot be read."""
    try:
        descriptor = os.open(NAME, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        told = os.read(descriptor, 33).decode("ascii", "replace") if is_file else ""
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return told if is_identity(told) else ""


def keep(folder: int, identity: str, *, durable: bool = False) -> str:
    """Give an open folder this identity unless it has one; return what it has. Raise OSError.

    The file appears under its name with all that is in it. `durable` waits for the disk.
    """
    fresh = f"{NAME}-{secrets.token_hex(4)}"
    try:
        _write(folder, fresh, identity, durable=durable)
        try:
            os.link(fresh, NAME, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            raise
        except OSError:  # some file systems have no links
            _write(folder, NAME, identity, durable=durable)
    except FileExistsError:
        return identity_in(folder) or ""
    finally:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
    if durable:
        os.fsync(folder)
    return identity


def replace(folder: int, identity: str) -> None:
    """Give an open folder this identity, whichever it had. Raise OSError."""
    fresh = f"{NAME}-{secrets.token_hex(4)}"
    _write(folder, fresh, identity, durable=False)
    os.rename(fresh, NAME, src_dir_fd=folder, dst_dir_fd=folder)


def _write(folder: int, name: str, identity: str, *, durable: bool) -> None:
    descriptor = os.open(name, _MAKE, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(identity.encode())
            file.flush()
            if durable:
                os.fsync(descriptor)
    except OSError:  # half of one would be nobody's
        os.unlink(name, dir_fd=folder)
        raise
