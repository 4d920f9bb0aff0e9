"""The fields of the fact `first-nonfinite`: the first value that is not finite. `probe` records the fact."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tb_netdebug.core.start_folder import START_FOLDER, current
from tb_netdebug.frameworks.torch.numerics.search import Searched

MOST_SCRIPT = 200


def as_fact(found: Searched, what_else: str, kind: str) -> dict[str, Any]:
    """Return the fields of `first-nonfinite`.

    `what_else` ("loss" or "gradient") is the culprit when the models have no origin to blame.
    """
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
    """Return what to type after `netdebug replay CAPSULE` to run this program with its arguments.

    Empty when the program is neither a module nor a file. Arguments that make it too long are left out.
    """
    words = module_words() or file_words()
    text = shlex.join([*words, *sys.argv[1:]]) if words else ""
    return text if len(text) <= MOST_SCRIPT else shlex.join(words)


def module_words() -> list[str]:
    """Return `-m` and the module's name if Python runs the program as a module.

    A path would break its imports.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    # A profiler run as a module (`-m cProfile x.py`) puts the script's words into argv, so argv[0] is not the
    # origin of the spec. A folder or an archive runs as plain `__main__`, which cannot be named.
    if spec is None or spec.name == "__main__" or sys.argv[:1] != [spec.origin]:
        return []
    return ["-m", spec.name.removesuffix(".__main__")]


def file_words() -> list[str]:
    """Return the path as typed; the absolute path if the program has changed its folder since."""
    if not sys.argv or not sys.argv[0].endswith(".py"):
        return []
    path = Path(START_FOLDER or "", sys.argv[0])
    if not path.is_file():
        return []
    return [sys.argv[0] if current() == START_FOLDER else str(path)]
