"""JSON for the page and the debugger, where non-finite numbers are "NaN", "Infinity" and "-Infinity".

The output is pure ASCII with names escaped, so any name survives, even one that is not valid Unicode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

_COMPACT = (",", ":")


def json_bytes(value: object) -> bytes:
    """Encode a value as compact JSON; raise TypeError for a type that JSON does not know."""
    # Non-finite numbers are rare: only when json refuses one is the whole value copied and rewritten.
    try:
        return json.dumps(value, allow_nan=False, separators=_COMPACT, default=_plain).encode()
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=_COMPACT).encode()


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _finite(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value
