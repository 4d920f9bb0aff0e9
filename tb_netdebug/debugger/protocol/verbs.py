"""The verbs and their arguments; checked by the hub, and again by the session."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.workbench import WorkbenchError

MOST_TEXT_LETTERS = 2000
# For all matrices of an answer together, so that its header stays below the limit of a frame.
MOST_CELLS = 32_768
MOST_WAIT_SECS = 5.0
_NEEDED = object()

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
    check: Check
    default: Any = _NEEDED


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the debugger.

    `steers`: the caller must hold the controls. `is_for_all`: it goes to all ranks of a run. `waits`: it is
    answered once the run is paused, or at the first place after the time of the argument `wait`; if no answer
    comes shortly after, the hub itself answers with the newest state.
    """

    arguments: Mapping[str, Argument] = field(default_factory=dict)
    steers: bool = False
    is_for_all: bool = False
    waits: bool = False


def steering(**arguments: Argument) -> Verb:
    return Verb(arguments, steers=True, is_for_all=True)


def waiting(**arguments: Argument) -> Verb:
    return Verb({**arguments, "wait": Argument(wait, 1.0)}, steers=True, is_for_all=True, waits=True)


STEPS = ("batch", "layer", "backward", "optimizer", "op")
PHASES = ("forward", "backward", "optimizer", "end")
WATCHED = (
    "batch", "input", "output", "label", "loss", "output_gradient", "gradient", "weight", "update", "state",
    "user", "scalar",
)  # fmt: skip
STATISTICS = (
    "nonfinite", "min", "max", "abs_max", "mean", "abs_mean", "std", "norm", "zeros", "change",
)  # fmt: skip
_ONE = Argument(count)
_MAYBE_ONE = Argument(maybe(count), None)
_NAME, _SLICE = Argument(text), Argument(maybe(text), None)
_CELLS = Argument(cells, 4096)

VERBS: Mapping[str, Verb] = {
    "pause": waiting(step=_MAYBE_ONE),
    "continue": Verb(steers=True, is_for_all=True),
    "step": waiting(
        by=Argument(one_of(*STEPS)), count=Argument(count, 1), match=Argument(maybe(pattern), None)
    ),
    "run_to": waiting(step=_MAYBE_ONE, layer=Argument(maybe(pattern), None)),
    "set_breakpoint": steering(
        id=_MAYBE_ONE,
        layer=Argument(maybe(pattern), None),
        phase=Argument(one_of(*PHASES), "forward"),
        step=_MAYBE_ONE,
        is_on=Argument(switch, True),
    ),
    "remove_breakpoint": steering(id=_ONE),
    "set_watchpoint": steering(
        id=_MAYBE_ONE,
        kind=Argument(one_of(*WATCHED)),
        tensors=Argument(pattern, ""),
        statistic=Argument(one_of(*STATISTICS)),
        comparison=Argument(one_of(">", "<", "is")),
        threshold=Argument(maybe(number), None),
        is_on=Argument(switch, True),
        preset=Argument(maybe(text), None),
    ),
    "remove_watchpoint": steering(id=_ONE),
    "presets": Verb(),
    "recheck": Verb(steers=True),
    "hits": Verb({"since": Argument(count, 0), "most": Argument(count, 200)}),
    "clear_hits": Verb(steers=True),
    "set_learning_rate": steering(optimizer=_ONE, group=_MAYBE_ONE, value=Argument(number)),
    "snapshot": Verb(steers=True),
    "detach": Verb(steers=True, is_for_all=True),
    "modules": Verb(),
    "stack": Verb(),
    "source": Verb({"file": Argument(text)}),
    "tensors": Verb(
        {
            "kind": Argument(maybe(text), None),
            "match": Argument(maybe(pattern), None),
            "most": Argument(count, 500),
        }
    ),
    "tensor": Verb({"name": _NAME, "slice": _SLICE, "previous": Argument(switch, False), "cells": _CELLS}),
    "evaluate": Verb({"text": Argument(text), "cells": _CELLS}),
    "batch": Verb(),
    "bytes": Verb(
        {
            "name": _NAME,
            "slice": _SLICE,
            "offset": Argument(count, 0),
            "most": Argument(count, 1 << 20),
        }
    ),
}


def checked(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of the verb with their defaults; raise ArgumentError, also for an unknown verb."""
    verb = VERBS.get(name)
    if verb is None:
        raise ArgumentError(f"There is no verb {name[:40]!r}.")
    unknown = sorted(set(arguments) - set(verb.arguments))
    if unknown:
        raise ArgumentError(f"{name} has no argument {unknown[0][:40]!r}.")
    found = {}
    for key, argument in verb.arguments.items():
        value = arguments.get(key, argument.default)
        if value is _NEEDED:
            raise ArgumentError(f"{name} needs {key}.")
        found[key] = argument.check(key, value) if key in arguments else value
    return found
