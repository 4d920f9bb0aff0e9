"""Frames on the control channel: a header of JSON, and bytes that belong to it (see README.md)."""

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
    """That is no frame, or a bigger one than there may be."""


@dataclass(frozen=True, slots=True)
class Frame:
    """`head` has what came as JSON; its `type` is a text."""

    head: Mapping[str, Any]
    attachment: bytes = b""

    @property
    def type(self) -> str:
        kind = self.head.get("type")
        return kind if isinstance(kind, str) else ""


def encoded(kind: str, /, *, attachment: bytes = b"", **fields: object) -> bytes:
    """Raises FrameError when it would be too big."""
    header = json_bytes({"type": kind, **fields})
    if len(header) > MOST_HEADER_BYTES or len(attachment) > MOST_ATTACHMENT_BYTES:
        raise FrameError(f"a message of {len(header)} and {len(attachment)} bytes is too big")
    return _LENGTH.pack(len(header)) + header + attachment


def decoded(data: bytes) -> Frame:
    """Raises FrameError."""
    if len(data) < _LENGTH.size:
        raise FrameError("a frame begins with the length of its header")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > min(len(data), _LENGTH.size + MOST_HEADER_BYTES) or len(data) - end > MOST_ATTACHMENT_BYTES:
        raise FrameError("the lengths of a frame are wrong")
    try:
        head = json.loads(data[_LENGTH.size : end], parse_constant=_refused)
    except (ValueError, RecursionError):
        raise FrameError("the header of a frame is no JSON") from None
    if not isinstance(head, dict):
        raise FrameError("the header of a frame is no object")
    return Frame(head, data[end:])


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
