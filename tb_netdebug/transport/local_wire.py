"""Messages on the socket between trainer and agent: each behind its length."""

from __future__ import annotations

import os
import socket
import struct

from google.protobuf.message import Message

_LENGTH = struct.Struct("<I")
_CREDENTIALS = struct.Struct("3i")
# No message is bigger; what the debugger sends is cut into pieces long before.
MOST_BYTES = 16 << 20


class WireError(ValueError):
    """The other side does not speak as it should; the connection is of no more use."""


def packed(message: Message) -> bytes:
    data = message.SerializeToString()
    if len(data) > MOST_BYTES:
        raise WireError(f"a message of {len(data)} bytes is too big")
    return _LENGTH.pack(len(data)) + data


class Unpacker:
    """Takes what was read, in whatever pieces it came, and gives the messages in it."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Raises WireError."""
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
    """Process and user at the other end; None where the system does not tell (there the folder protects)."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return pid, uid


def is_own(connection: socket.socket) -> bool:
    """Whether the other end is a process of the same user."""
    peer = peer_of(connection)
    return peer is None or peer[1] == os.getuid()
