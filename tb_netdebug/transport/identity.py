"""The identity of a run: a small file in its folder, at the trainer and at the collector.

It stays the same whatever the run is called. It is no secret and grants nothing, and an identity from
elsewhere is only ever compared.
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
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # non-blocking: it may be a FIFO
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def drawn() -> str:
    """Return a new random identity."""
    return secrets.token_hex(16)


def derived(owner: str) -> str:
    """Return the identity that all processes of one owner derive alike."""
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
    """Give an open folder this identity unless it has one; return the one it has. Raise OSError.

    The file appears under its name only when it is complete. With `durable` it is synced to the disk.
    """
    fresh = f"{NAME}-{secrets.token_hex(4)}"
    try:
        _write(folder, fresh, identity, durable=durable)
        try:
            os.link(fresh, NAME, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            raise
        except OSError:  # some file systems have no hard links
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
    """Give an open folder this identity, whichever it had before. Raise OSError."""
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
    except OSError:  # an incomplete file would be an unreadable identity
        os.unlink(name, dir_fd=folder)
        raise
