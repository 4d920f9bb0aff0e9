"""Framing of the messages on the socket between trainer and agent: each follows its length."""

from __future__ import annotations

import os
import socket
import struct

from google.protobuf.message import Message

_LENGTH = struct.Struct("<I")
# Linux's struct ucred: process, user, group.
_CREDENTIALS = struct.Struct("3i")
# The largest message; the debugger's data is cut into pieces far below this.
MOST_BYTES = 16 << 20


class WireError(ValueError):
    """The peer broke the protocol; the connection is of no further use."""


def packed(message: Message) -> bytes:
    data = message.SerializeToString()
    if len(data) > MOST_BYTES:
        raise WireError(f"a message of {len(data)} bytes is too big")
    return _LENGTH.pack(len(data)) + data


class Unpacker:
    """A decoder of framed messages, fed with the bytes read from a socket in pieces of any size."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete with these bytes. Raise WireError for an oversized one."""
        self._data += data
        found = []
        while len(self._data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data)
            if size > MOST_BYTES:
                raise WireError(f"a message of {size} bytes was announced")
            end = _LENGTH.size + size
            if len(self._data) < end:
                break
            found.append(bytes(self._data[_LENGTH.size : end]))
            del self._data[:end]
        return found


def peer_of(connection: socket.socket) -> tuple[int, int] | None:
    """Return the process and the user at the other end of a Unix socket.

    Return None where the system does not report them; there the permissions of the folder protect the socket.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return pid, uid


def is_own(connection: socket.socket) -> bool:
    """Return whether the peer is a process of the same user."""
    peer = peer_of(connection)
    return peer is None or peer[1] == os.getuid()
