"""The envelope of every payload: a version, a zstd-compressed message, and a limit on its size."""

from __future__ import annotations

from typing import TypeVar

import zstandard
from google.protobuf.message import DecodeError, Message

from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion, require

MOST_COLUMN_BYTES = 256 * 1024 * 1024
LEVEL = 3

AnyMessage = TypeVar("AnyMessage", bound=Message)


def compressed(message: Message, *, limit: int = MOST_COLUMN_BYTES) -> bytes:
    """Return the message compressed; raise ValueError when it is larger than a reader accepts."""
    data = message.SerializeToString()
    if len(data) > limit:
        raise ValueError(f"{len(data)} bytes are too many for one block, which holds {limit}: use several")
    return zstandard.ZstdCompressor(level=LEVEL).compress(data)


def decompressed(frame: bytes, message: AnyMessage, *, limit: int = MOST_COLUMN_BYTES) -> AnyMessage:
    """Decompress a frame into `message`; the size it declares is checked before anything is unpacked."""
    try:
        size = zstandard.frame_content_size(frame)
        require(0 <= size <= limit, f"a block would unpack to {size} bytes; at most {limit} are allowed")
        # A frame that does not state its size reports -1 and is refused; 0 is an empty message.
        data = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False) if size else b""
    except zstandard.ZstdError as error:
        raise DamagedBlock(f"the compressed part of a block is damaged: {error}") from None
    return parsed(data, message)


def parsed(data: bytes, message: AnyMessage) -> AnyMessage:
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise DamagedBlock("the bytes are not a NetDebug message") from None
    return message


def check_version(what: str, version: int, *, known: int) -> None:
    require(version, f"this {what} has no version")
    if version > known:
        raise UnsupportedVersion(what, version, known)
