"""Whose connection it is. All users of a machine can connect to a port of its loopback; Linux tells which of
them has.

It is asked for the one connection. Where that cannot be done, its table of all connections is read, which
takes 10 ms when there are thousands.
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
# Of a question to the kernel (man 7 sock_diag), in the order of the machine but for the two ports.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_WANTED = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_NO_INTERFACE_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ALL_STATES = 0xFFFFFFFF
_ENDS = slice(_WANTED.size, _WANTED.size + 36)  # ports and addresses
_ENDS_TOLD = slice(_HEADER.size + 4, _HEADER.size + 40)
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 64
_ANSWER_SECS = 1.0


def is_other_users(environ: WSGIEnvironment) -> bool:
    """Whether somebody else on this machine asks; False where the system does not tell, as on a Mac."""
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
    """By the lines of a table. What is not in it, although our own end is, was closed quickly by somebody who
    may have wanted that; so was what belongs to no process any more. Root may do anything anyway."""
    rows = [row for line in lines if len(row := line.split()) > _INODE]
    ours = f":{server:04X}"
    if not any(row[_LOCAL].endswith(ours) for row in rows):
        return False  # the table of somewhere else
    owners = [
        (row[_UID], row[_INODE]) for row in rows if row[_LOCAL] == client and row[_REMOTE].endswith(ours)
    ]
    return not any(_is_trusted(uid, int(owner), int(inode)) for owner, inode in owners)


def owner_of_peer(connection: socket.socket) -> tuple[int, int] | None:
    """User and inode of the socket at the other end, on this machine; None when the kernel does not say."""
    try:
        peer, own = connection.getpeername(), connection.getsockname()
        ends = [socket.inet_pton(connection.family, end[0].partition("%")[0]) for end in (peer, own)]
        question = _WANTED.pack(connection.family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        question += _PORTS.pack(peer[1], own[1]) + b"".join(end.ljust(16, b"\0") for end in ends)
        return _asked(question + _NO_INTERFACE_NO_COOKIE)
    except (OSError, ValueError, AttributeError):  # another system, or one that does not let us
        return None


def _asked(question: bytes) -> tuple[int, int] | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECS)
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + question)
        answer = kernel.recv(1 << 16)
    # Where there is no such connection any more, somebody may listen at its port.
    if len(answer) < _OWNER_AT + _OWNER.size or answer[_ENDS_TOLD] != question[_ENDS]:
        return None
    uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    return int(uid), int(inode)


def _is_trusted(uid: int, owner: int, inode: int) -> bool:
    """What belongs to no process any more may be anybody's."""
    return owner in (uid, 0) and inode != 0


def _end(address: str, port: int) -> str:
    """As the tables write it: words in the order of the machine."""
    if ":" in address:
        words = struct.unpack("=4I", socket.inet_pton(socket.AF_INET6, address.partition("%")[0]))
    else:
        words = struct.unpack("=I", socket.inet_pton(socket.AF_INET, address))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
