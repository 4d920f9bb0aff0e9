"""Pictures: the encoder against a decoder of its own, and what counts as a picture."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.writer.png import MAX_PIXELS, encode, pixels


def decode(data: bytes) -> NDArray[np.uint8]:
    """Reads the PNG files that have no filters, checking signature and checksums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, offset = {}, 8
    while offset < len(data):
        (length,) = struct.unpack_from(">I", data, offset)
        kind, body = data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + length]
        assert struct.unpack_from(">I", data, offset + 8 + length) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        offset += 12 + length
    width, height, depth, color, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert (depth, 0, b"") == (8, rows[:, 0].max(), chunks[b"IEND"])
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_every_pixel_comes_back(channels: int) -> None:
    """Bytes pass unchanged, for each number of channels."""
    image = np.random.default_rng(1).integers(0, 256, (5, 7, channels), np.uint8)
    assert np.array_equal(image, decode(encode(pixels(image))))


def test_channels_may_come_first() -> None:
    """PyTorch's order of axes is understood where it cannot be meant otherwise."""
    image = np.random.default_rng(1).integers(0, 256, (3, 6, 7), np.uint8)
    assert np.array_equal(np.moveaxis(image, 0, 2), pixels(image))


def test_floats_count_from_zero_to_one() -> None:
    """Rounded, clipped, and NaN is black."""
    row = [[0.0, 1.0, 0.5, -3.0, 7.0, float("nan"), float("inf")]]
    assert [0, 255, 128, 0, 255, 0, 255] == pixels(row)[0, :, 0].tolist()


def test_bools_are_black_and_white() -> None:
    """A mask is a picture too."""
    assert [0, 255] == pixels([[False, True]])[0, :, 0].tolist()


@pytest.mark.parametrize("shape", [(5,), (0, 3), (2, 5, 7, 3), (6, 6, 6), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    """The message names the shape."""
    with pytest.raises(ValueError, match="not \\("):
        pixels(np.zeros(shape))


def test_too_many_pixels_are_refused() -> None:
    """Nobody looks at such a picture, and it would fill the queue."""
    with pytest.raises(ValueError, match="at most"):
        pixels(np.broadcast_to(np.uint8(0), (MAX_PIXELS, 2)))
