"""Frames on the control channel: a JSON header, and the bytes that belong to it (see README.md)."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tb_netdebug.core.records.json_text import json_bytes

PROTOCOL = 1
MOST_HEADER_BYTES = 1 << 20
MOST_ATTACHMENT_BYTES = 2 << 20
_LENGTH = struct.Struct("<I")


class FrameError(ValueError):
    """The data is not a frame, or is too big for one."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame; `head` is the JSON header, whose `type` is a text."""

    head: Mapping[str, Any]
    attachment: bytes = b""

    @property
    def type(self) -> str:
        kind = self.head.get("type")
        return kind if isinstance(kind, str) else ""


def encoded(kind: str, /, *, attachment: bytes = b"", **fields: object) -> bytes:
    """Return the bytes of a frame; raise FrameError if it would be too big."""
    header = json_bytes({"type": kind, **fields})
    if len(header) > MOST_HEADER_BYTES or len(attachment) > MOST_ATTACHMENT_BYTES:
        raise FrameError(f"a message of {len(header)} and {len(attachment)} bytes is too big")
    return _LENGTH.pack(len(header)) + header + attachment


def decoded(data: bytes) -> Frame:
    """Return the frame in these bytes; raise FrameError if they are not one."""
    if len(data) < _LENGTH.size:
        raise FrameError("a frame must begin with the length of its header")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > min(len(data), _LENGTH.size + MOST_HEADER_BYTES) or len(data) - end > MOST_ATTACHMENT_BYTES:
        raise FrameError("the lengths of a frame are wrong")
    try:
        # json.loads would accept NaN and Infinity, which are not JSON.
        head = json.loads(data[_LENGTH.size : end], parse_constant=_refused)
    except (ValueError, RecursionError):
        raise FrameError("the header of a frame is not JSON") from None
    if not isinstance(head, dict):
        raise FrameError("the header of a frame is no object")
    return Frame(head, data[end:])


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
