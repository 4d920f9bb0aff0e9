"""The arguments of verbs: their checks, which are made where a request comes off the wire."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.workbench import WorkbenchError

MOST_TEXT_LETTERS = 2000
# For all matrices of an answer together, so that its header stays below the limit of a frame.
MOST_CELLS = 32_768
MOST_WAIT_SECS = 5.0
NEEDED = object()

Check = Callable[[str, Any], Any]


class ArgumentError(ValueError):
    """An argument is missing or wrong; the text is a sentence about it."""


def whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 53:
        raise ArgumentError(f"{name} must be a whole number.")
    return value


def count(name: str, value: Any) -> int:
    if whole(name, value) < 0:
        raise ArgumentError(f"{name} cannot be negative.")
    return int(value)


def number(name: str, value: Any) -> float:
    """Return a number; the texts that stand for NaN and infinities in JSON are accepted."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(f"{name} must be a number.")
    try:
        return float(value)
    except OverflowError:
        raise ArgumentError(f"{name} is too big.") from None


def wait(name: str, value: Any) -> float:
    secs = number(name, value)
    return min(max(secs, 0.0), MOST_WAIT_SECS) if math.isfinite(secs) else MOST_WAIT_SECS


def switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false.")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT_LETTERS:
        raise ArgumentError(f"{name} must be a text of at most {MOST_TEXT_LETTERS} characters.")
    return value


def pattern(name: str, value: Any) -> str:
    """Return a regular expression that is searched in linear time."""
    try:
        return NamePattern(text(name, value)).text
    except WorkbenchError as error:
        raise ArgumentError(f"{name}: {error}") from None


def cells(name: str, value: Any) -> int:
    return min(max(count(name, value), 1), MOST_CELLS)


def one_of(*choices: str) -> Check:
    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise ArgumentError(f"{name} must be one of {', '.join(choices)}.")
        return str(value)

    return check


def maybe(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument; `told` is its type and meaning in README.md."""

    check: Check
    told: str = ""
    default: Any = NEEDED


def one_of_these(choices: Sequence[str], default: Any = NEEDED) -> Argument:
    """Return an argument that is one of a few texts, all of which README.md lists."""
    return Argument(one_of(*choices), ", ".join(f'"{each}"' for each in choices), default)
