"""Parses the answer of the plugin's route `columns` into arrays; format: viewer/plugin/http_api.md."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"f64": "<f8", "f32": "<f4", "i32": "<i4", "u8": "u1"}
_LENGTH_BYTES = 4

Columns = dict[str, NDArray[np.float64]]


def answer_of(body: bytes) -> tuple[dict[str, Any], Columns]:
    """Return the header and the columns of a response with one answer. Raise ValueError for anything else."""
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
    try:
        (head,) = json.loads(body[_LENGTH_BYTES:end])["answers"]
        if "error" in head:
            raise ValueError(str(head["error"]))
        return head, {path: _array(body, end, place) for path, place in head["columns"].items()}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("the answer has a format that this version does not know") from error


def _array(body: bytes, begin: int, place: list[Any]) -> NDArray[np.float64]:
    kind, offset, size, *_ = place
    # np.frombuffer would take a size of -1 for the rest of the buffer.
    if min(offset, size) < 0:
        raise ValueError("a column lies outside the answer")
    return np.frombuffer(body, TYPES[kind], size, begin + offset).astype(np.float64)
