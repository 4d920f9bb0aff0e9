"""Whose connection it is. All users of a machine can connect to a port of its loopback; Linux tells which of
them has."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

TABLES = Path("/proc/self/net")
# Columns of such a table.
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9


def is_other_users(environ: WSGIEnvironment) -> bool:
    """Whether somebody else on this machine asks; False where the system does not tell, as on a Mac."""
    address, port = environ.get("REMOTE_ADDR", ""), environ.get("REMOTE_PORT")
    if port is None:
        return False
    try:
        lines = (TABLES / ("tcp6" if ":" in address else "tcp")).read_text().splitlines()[1:]
        return is_not_of(
            os.getuid(), lines, client=_end(address, int(port)), server=int(environ["SERVER_PORT"])
        )
    except (OSError, ValueError, AttributeError):  # no such table, or no such function
        return False


def is_not_of(uid: int, lines: Sequence[str], *, client: str, server: int) -> bool:
    """By the lines of a table. What is not in it, although our own end is, was closed quickly by somebody who
    may have wanted that; so was what belongs to no process any more. Root may do anything anyway."""
    rows = [row for line in lines if len(row := line.split()) > _INODE]
    ours = f":{server:04X}"
    if not any(row[_LOCAL].endswith(ours) for row in rows):
        return False  # the table of somewhere else
    owners = [
        (row[_UID], row[_INODE]) for row in rows if row[_LOCAL] == client and row[_REMOTE].endswith(ours)
    ]
    return not any(owner in (str(uid), "0") and inode != "0" for owner, inode in owners)


def _end(address: str, port: int) -> str:
    """As the tables write it: words in the order of the machine."""
    if ":" in address:
        words = struct.unpack("=4I", socket.inet_pton(socket.AF_INET6, address.partition("%")[0]))
    else:
        words = struct.unpack("=I", socket.inet_pton(socket.AF_INET, address))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
