"""The fact `first-nonfinite`: the first value that is not finite. `probe` records it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TypedDict

from tb_netdebug.core.records.facts import Names, NonfiniteFact
from tb_netdebug.core.start_folder import START_FOLDER, current
from tb_netdebug.frameworks.torch.numerics.search import Searched

MOST_SCRIPT = 200


class LossFields(TypedDict, total=False):
    """Fields of the fact that are known beside what the search found."""

    step: int
    operations: Names
    capsule: str | None
    left_out: bool
    tensor: str
    operation: str
    site: str
    before: str
    variable: str
    backward: str
    was_updated: bool
    divided_by_zero: str


def as_fact(found: Searched, what_else: str, kind: str) -> NonfiniteFact:
    """Return the fact as far as the search answers it.

    `what_else` ("loss" or "gradient") is the culprit when the models have no origin to blame.
    """
    origin = found.origin
    if origin is None or origin.masked_only:
        return NonfiniteFact(
            what="unknown" if found.is_open else what_else,
            inputs_finite=origin is None,
            kind=kind,
            masked_only=origin is not None,
            masked_inputs=False,
            tensor="",
            operation="",
            why_not=found.why_not,
            repeats=found.repeats,
            is_open=found.is_open,
        )
    return NonfiniteFact(
        what=origin.what,
        where=origin.where,
        class_name=origin.class_name,
        kind=origin.kind,
        inputs_finite=origin.inputs_finite,
        parameters_finite=origin.parameters_finite,
        masked_only=origin.masked_only,
        masked_inputs=origin.masked_inputs,
        tensor=origin.tensor,
        operation=origin.operation,
        site=origin.site,
        before=origin.before,
        why_not=found.why_not,
        repeats=found.repeats,
        is_open=found.is_open,
    )


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
