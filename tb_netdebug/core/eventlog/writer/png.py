"""Encoding of pictures as PNG, without an imaging library, for `EventWriter.image`."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # grey, grey + alpha, RGB, RGBA
MAX_PIXELS = 1 << 24


def pixels(picture: ArrayLike) -> NDArray[np.uint8]:
    """Return H×W×C bytes of a picture (H×W, H×W×C or C×H×W; floats from 0 to 1), or raise ValueError."""
    array: NDArray[Any] = np.asarray(picture)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim == 3 and array.shape[2] not in _COLOR_TYPES and array.shape[0] in _COLOR_TYPES:
        array = np.moveaxis(array, 0, 2)
    if array.ndim != 3 or array.shape[2] not in _COLOR_TYPES or 0 in array.shape:
        raise ValueError(f"An image must be H×W, H×W×C or C×H×W with C from 1 to 4, not {np.shape(picture)}.")
    if array.shape[0] * array.shape[1] > MAX_PIXELS:
        raise ValueError(
            f"An image may have at most {MAX_PIXELS} pixels, not {array.shape[0] * array.shape[1]}."
        )
    return _bytes_of(array)


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    scaled: NDArray[Any]
    if array.dtype.kind in "iu":
        scaled = np.clip(array, 0, 255)
    elif array.dtype.kind in "fb":
        known = np.nan_to_num(array.astype(np.float32), nan=0.0, posinf=1.0, neginf=0.0)
        scaled = np.rint(np.clip(known, 0.0, 1.0) * 255.0)
    else:
        raise ValueError(f"An image must hold bytes or floats from 0 to 1, not {array.dtype}.")
    pixels: NDArray[np.uint8] = scaled.astype(np.uint8)
    return pixels


def encode(image: NDArray[np.uint8]) -> bytes:
    """Return the PNG file of H×W×C bytes."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    # A row begins with the number of its filter: 0 is none.
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = image.reshape(height, width * channels)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
