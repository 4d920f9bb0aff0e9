"""The fact `first-nonfinite`: what is told of the first value that is not finite."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tb_netdebug.capture.pytorch.numerics.search import Searched

MOST_SCRIPT = 200


def as_fact(found: Searched, what_else: str, kind: str) -> dict[str, Any]:
    """Return the fields of `first-nonfinite`; without an origin in the models it is `what_else`."""
    origin = found.origin
    how = {"why_not": found.why_not, "repeats": found.repeats, "is_open": found.is_open}
    if origin is None or origin.masked_only:
        return {
            "where": "",
            "class_name": "",
            "what": "unknown" if found.is_open else what_else,
            "inputs_finite": origin is None,
            "parameters_finite": True,
            "kind": kind,
            "masked_only": origin is not None,
            "masked_inputs": False,
            "tensor": "",
            "operation": "",
            "site": "",
            **how,
        }
    told = asdict(origin)
    del told["order"]
    return {**told, **how}


def script() -> str:
    """Return the program with its arguments as one would type it, when it is a file."""
    words = sys.argv
    if not words or not words[0].endswith(".py") or not Path(words[0]).is_file():
        return ""
    text = shlex.join(words)
    return text if len(text) <= MOST_SCRIPT else shlex.quote(words[0])
