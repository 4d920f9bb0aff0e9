"""The description of a run: what was watched, on which system, and what was not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from tb_netdebug.core.records.errors import DamagedBlock

# Far more than any description needs; a reader refuses a larger one.
MOST_BYTES = 4 << 20


def encode_run_info(description: Mapping[str, Any]) -> bytes:
    """Encode a description as JSON; values that JSON does not know become text."""
    return json.dumps({"schema": 1, **description}, default=_plain, ensure_ascii=True).encode()


def decode_run_info(payload: bytes) -> dict[str, Any]:
    """Decode a description; raise DamagedBlock for anything else."""
    if len(payload) > MOST_BYTES:
        raise DamagedBlock("the description of the run is too big")
    try:
        description = json.loads(payload)
    except (ValueError, RecursionError):
        raise DamagedBlock("the description of the run is not readable") from None
    if not isinstance(description, dict):
        raise DamagedBlock("the description of the run is not an object")
    return description


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Path):
        return str(value)
    return getattr(value, "__qualname__", None) or str(value)
