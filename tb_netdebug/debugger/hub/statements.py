"""Checks everything that a session reports before a client gets it.

Known fields pass if they have the types of `protocol/statements.py` and a plausible size. Unknown fields are
dropped, wrong values are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args, get_origin, is_typeddict

from tb_netdebug.debugger.protocol.statements import SessionJson, StateJson, fields_of
from tb_netdebug.debugger.protocol.verbs import VERBS, Verb

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


_SCALARS: Mapping[Any, Check] = {int: whole, float: number, str: text, bool: switch}


def check_of(hint: Any, choices: Sequence[str] = ()) -> Check:
    """Return the check of a type of the table."""
    if is_typeddict(hint):
        fields = fields_of(hint)
        return Fields({each.name: (check_of(each.hint, each.choices), each.default) for each in fields})
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return list_of(check_of(item, choices))
    if get_origin(hint) is Literal:
        return one_of(*get_args(hint))
    if choices:
        return one_of(*choices)
    return texts_by_name if hint == dict[str, str] else _SCALARS[hint]


_SESSION = check_of(SessionJson)
_STATE = check_of(StateJson)


def _check_of_answer(verb: Verb) -> Check:
    if verb.answer is None:
        return nothing
    if verb.answer is StateJson:
        return _STATE
    if not verb.is_loose:
        return check_of(verb.answer)
    return a_list if get_origin(verb.answer) is list else an_object


_ANSWERS = {name: _check_of_answer(verb) for name, verb in VERBS.items()}


def session_of(value: Any) -> SessionJson:
    """Return what a session says of itself, checked; raise StatementError."""
    return cast("SessionJson", _SESSION(value))


def state_of(value: Any) -> StateJson:
    """Return the checked state of a session; raise StatementError."""
    return cast("StateJson", _STATE(value))


def value_of(verb: str, value: Any) -> Any:
    """Return the checked answer of a verb; raise StatementError."""
    return _ANSWERS[verb](value)
