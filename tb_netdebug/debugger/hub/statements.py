"""Checks everything that a session reports before a client gets it.

Known fields pass if they have the types of README.md and a plausible size. Unknown fields are dropped, wrong
values are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tb_netdebug.debugger.place import PHASES
from tb_netdebug.debugger.protocol.verbs import STEPS

MOST_LETTERS = 4000
MOST_ITEMS = 1000
MOST_DEPTH = 32
MOST_NUMBER = 1 << 53  # the largest whole number that a browser holds exactly
# JSON has no numbers for these.
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
ERROR_KINDS = ("refused", "gone", "busy", "failed")

Check = Callable[[Any], Any]


class StatementError(ValueError):
    """A session sent something that no session of NetDebug sends."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with these fields; a session of an older version may lack some."""

    checks: Mapping[str, tuple[Check, Any]]

    def __call__(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise StatementError("no object")
        return {
            name: default if value.get(name) is None else check(value[name])
            for name, (check, default) in self.checks.items()
        }


def text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST_LETTERS:
        raise StatementError("no text")
    return value


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_NUMBER:
        raise StatementError("no whole number")
    return value


def number(value: Any) -> float | str:
    if value in NOT_FINITE:
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e308:
        raise StatementError("no number")
    return value


def switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise StatementError("neither true nor false")
    return value


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise StatementError("none of those that there are")
        return str(value)

    return check


def list_of(check: Check) -> Check:
    def check_all(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            raise StatementError("no list")
        return [check(each) for each in value]

    return check_all


def texts_by_name(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MOST_ITEMS:
        raise StatementError("no object")
    return {text(name): text(inner) for name, inner in value.items()}


def anything(value: Any) -> Any:
    """Return any value, but not one so deep that walking it fails."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return value
    raise StatementError("too deep")


def a_list(value: Any) -> Any:
    if not isinstance(value, list):
        raise StatementError("no list")
    return anything(value)


def an_object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise StatementError("no object")
    return anything(value)


def nothing(value: Any) -> None:
    if value is not None:
        raise StatementError("more than nothing")


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


_PLACE = Fields(
    {
        "phase": (one_of(*PHASES), "start"),
        "module": (text, None),
        "class_name": (text, None),
        "edge": (one_of("before", "after"), "before"),
        "op": (text, None),
        "number": (whole, 0),
        "file": (text, None),
        "line": (whole, 0),
        "function": (text, ""),
    }
)
_REASON = Fields({"kind": (text, ""), "text": (text, ""), "id": (whole, None)})
_BREAKPOINT = Fields(
    {
        "id": (whole, 0),
        "layer": (text, None),
        "phase": (text, ""),
        "step": (whole, None),
        "is_on": (switch, True),
        "hits": (whole, 0),
    }
)
_WATCHPOINT = Fields(
    {
        "id": (whole, 0),
        "kind": (text, ""),
        "tensors": (text, ""),
        "statistic": (text, ""),
        "comparison": (text, ""),
        "threshold": (number, None),
        "is_on": (switch, True),
        "advice": (text, ""),
        "preset": (text, None),
        "hits": (whole, 0),
        "complaint": (text, None),
    }
)
_LEARNING_RATE = Fields(
    {"optimizer": (whole, 0), "group": (whole, 0), "name": (text, ""), "value": (number, None)}
)
SESSION = Fields(
    {
        "run": (list_of(text), []),
        "run_dir": (text, ""),
        "rank": (whole, 0),
        "world_size": (whole, 1),
        "group": (text, ""),
        "pid": (whole, 0),
        "host": (text, ""),
        "program": (text, ""),
        "framework": (text, ""),
        "models": (texts_by_name, {}),
        "can": (list_of(one_of(*STEPS)), []),
        "cannot": (list_of(text), []),
        "collective_timeout_secs": (number, None),
    }
)
STATE = Fields(
    {
        "version": (whole, 0),
        "status": (one_of("running", "paused", "over"), "running"),
        "is_attached": (switch, False),
        "step": (whole, 0),
        "place": (_PLACE, None),
        "reason": (_REASON, None),
        "paused_at": (number, None),
        "lease_secs": (number, 0.0),
        "resumes_at": (number, None),
        "is_waiting": (switch, False),
        "loss": (number, None),
        "hits": (whole, 0),
        "breakpoints": (list_of(_BREAKPOINT), []),
        "watchpoints": (list_of(_WATCHPOINT), []),
        "learning_rates": (list_of(_LEARNING_RATE), []),
        "note": (text, None),
    }
)
_PIECE = Fields(
    {
        "size": (whole, 0),
        "dtype": (text, ""),
        "shape": (list_of(whole), []),
        "offset": (whole, 0),
        "is_last": (switch, False),
    }
)
# The checks of what verbs answer; a verb that is not listed answers with an object of its own.
VALUES: Mapping[str, Check] = {
    **dict.fromkeys(("pause", "continue", "step", "run_to", "detach"), STATE),
    "set_breakpoint": _BREAKPOINT,
    "set_watchpoint": _WATCHPOINT,
    **dict.fromkeys(("remove_breakpoint", "remove_watchpoint", "clear_hits"), nothing),
    "set_learning_rate": list_of(_LEARNING_RATE),
    **dict.fromkeys(("presets", "hits", "modules", "stack", "tensors", "batch"), a_list),
    "bytes": _PIECE,
}


def value_of(verb: str, value: Any) -> Any:
    """Return the checked answer of a verb; raise StatementError."""
    return VALUES.get(verb, an_object)(value)
