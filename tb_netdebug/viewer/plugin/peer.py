"""Finds out which user of this machine a connection on loopback belongs to, on Linux. Used by `control.py`.

Every user of a machine can connect to its loopback. The kernel is asked about the one connection. Where that
is not possible, its table of all connections is read, which takes 10 ms if there are thousands.
"""

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
# For a sock_diag request to the kernel (man 7 sock_diag): native byte order except for the two ports.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_WANTED = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_NO_INTERFACE_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ALL_STATES = 0xFFFFFFFF
_ENDS = slice(_WANTED.size, _WANTED.size + 36)  # ports and addresses
# Where struct inet_diag_msg, the answer, has the same 36 bytes, and user and inode.
_ENDS_TOLD = slice(_HEADER.size + 4, _HEADER.size + 40)
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 64
_ANSWER_SECS = 1.0


def is_other_users(environ: WSGIEnvironment) -> bool:
    """Return whether another user of this machine asks; False if the system cannot tell, such as macOS."""
    connection = environ.get("werkzeug.socket")
    owner = owner_of_peer(connection) if isinstance(connection, socket.socket) else None
    if owner is not None:
        return not _is_trusted(os.getuid(), *owner)
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
    """Return whether no trusted user owns the client's end, by the lines of a connection table.

    A client that is missing although our own end is listed has closed at once, perhaps on purpose, and is not
    trusted; nor is a connection without a process any more. Root may do anything anyway, and is trusted.
    """
    rows = [row for line in lines if len(row := line.split()) > _INODE]
    ours = f":{server:04X}"
    if not any(row[_LOCAL].endswith(ours) for row in rows):
        return False  # not the table of this connection
    owners = [
        (row[_UID], row[_INODE]) for row in rows if row[_LOCAL] == client and row[_REMOTE].endswith(ours)
    ]
    return not any(_is_trusted(uid, int(owner), int(inode)) for owner, inode in owners)


def owner_of_peer(connection: socket.socket) -> tuple[int, int] | None:
    """Return user and inode of the other end's socket on this machine, or None if the kernel does not say."""
    try:
        peer, own = connection.getpeername(), connection.getsockname()
        ends = [socket.inet_pton(connection.family, end[0].partition("%")[0]) for end in (peer, own)]
        question = _WANTED.pack(connection.family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        question += _PORTS.pack(peer[1], own[1]) + b"".join(end.ljust(16, b"\0") for end in ends)
        return _asked(question + _NO_INTERFACE_NO_COOKIE)
    except (OSError, ValueError, AttributeError):  # another system, or not permitted
        return None


def _asked(question: bytes) -> tuple[int, int] | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECS)
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + question)
        answer = kernel.recv(1 << 16)
    # If the connection is gone, the kernel may answer with a socket that listens on its port: compare the
    # ends.
    if len(answer) < _OWNER_AT + _OWNER.size or answer[_ENDS_TOLD] != question[_ENDS]:
        return None
    uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    return int(uid), int(inode)


def _is_trusted(uid: int, owner: int, inode: int) -> bool:
    """Return whether the owner is we or root; a socket of no process (inode 0) may be anybody's."""
    return owner in (uid, 0) and inode != 0


def _end(address: str, port: int) -> str:
    """Return an address as the tables have it: words in native byte order."""
    if ":" in address:
        words = struct.unpack("=4I", socket.inet_pton(socket.AF_INET6, address.partition("%")[0]))
    else:
        words = struct.unpack("=I", socket.inet_pton(socket.AF_INET, address))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
