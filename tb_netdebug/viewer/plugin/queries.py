"""Validates what requests ask for, mostly the `columns` route: untrusted JSON in, checked values out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tb_netdebug.core.records.step import Kind

MOST_QUERIES = 100
MOST_NAMES = 200
MOST_POINTS = 20_000
MOST_COLUMNS = 4_000
MOST_CELLS = 400_000  # names times points of one query
MOST_RANKS = 1 << 20
LONGEST_TEXT = 65_536
LONGEST_NAME = 20_000
LONGEST_PATTERN = 100
KINDS = {kind.name.lower(): kind for kind in Kind}
_STATISTIC = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Steps are stored in 64 bits.
_STEPS = range(-(1 << 63), 1 << 63)


class QueryError(ValueError):
    """Something is wrong with a query; the message is for the client."""


@dataclass(frozen=True, slots=True)
class Query:
    """A valid query; `arguments` holds just the given fields that belong to `what`, as Python values."""

    what: str
    run: str
    arguments: dict[str, Any] = field(default_factory=dict)


def parse_queries(text: str) -> list[Query | QueryError]:
    """Return one entry for each query, in order. Raises QueryError if the text is no list at all."""
    if len(text) > LONGEST_TEXT:
        raise QueryError(
            f"The queries are longer than {LONGEST_TEXT} characters. Split them into several requests."
        )
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise QueryError("The queries are not valid JSON.") from None
    if not isinstance(found, list):
        raise QueryError("The queries must be a JSON array.")
    if len(found) > MOST_QUERIES:
        raise QueryError(f"There are {len(found)} queries; one request may have at most {MOST_QUERIES}.")
    return [_query_or_error(one) for one in found]


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON body of a request that changes something; the gate has limited its length."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise QueryError("The body is not valid JSON.") from None
    if not isinstance(found, dict):
        raise QueryError("The body must be a JSON object.")
    return found


def parse_query(asked: object) -> Query:
    """Return the query. Raises QueryError if it is not an object whose fields are within their limits."""
    if not isinstance(asked, dict):
        raise QueryError("A query must be a JSON object.")
    what = asked.get("what")
    if not isinstance(what, str) or what not in FIELDS:
        raise QueryError(f"`what` must be one of {', '.join(FIELDS)}.")
    fields, required = FIELDS[what], REQUIRED[what]
    unknown = sorted(str(name)[:40] for name in asked.keys() - fields.keys() - {"what", "run"})
    if unknown:
        raise QueryError(f"A query for {what} has no field {unknown[0]!r}.")
    given = {name: value for name, value in asked.items() if value is not None}
    missing = [name for name in ("run", *required) if name not in given]
    if missing:
        raise QueryError(f"A query for {what} needs `{missing[0]}`.")
    arguments = {name: check(given[name], name) for name, check in fields.items() if name in given}
    _check_together(arguments)
    return Query(what, run_name(given["run"]), arguments)


def run_name(value: object) -> str:
    return _text(value, "run")


def _query_or_error(asked: object) -> Query | QueryError:
    try:
        return parse_query(asked)
    except QueryError as error:
        return error


def _check_together(arguments: Mapping[str, Any]) -> None:
    first, last = arguments.get("first"), arguments.get("last")
    if first is not None and last is not None and first > last:
        raise QueryError(f"`first` is {first}, which is after `last`, {last}.")
    if len(arguments.get("names", ())) * arguments.get("points", 1000) > MOST_CELLS:
        raise QueryError(f"Names times points may be at most {MOST_CELLS}. Ask for fewer points.")


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise QueryError(f"`{name}` must be text of at most {LONGEST_NAME} characters.")
    return value


def _names(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        raise QueryError(f"`{name}` must be a list of at most {MOST_NAMES} names.")
    return [_text(one, name) for one in value]


def _number(limits: range) -> Callable[[object, str], int]:
    def check(value: object, name: str) -> int:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, bool) or not isinstance(whole, int) or whole not in limits:
            raise QueryError(f"`{name}` must be a whole number from {limits.start} to {limits.stop - 1}.")
        return whole

    return check


def _kind(value: object, name: str) -> Kind:
    if not isinstance(value, str) or value not in KINDS:
        raise QueryError(f"`{name}` must be one of {', '.join(KINDS)}.")
    return KINDS[value]


def _statistic(value: object, name: str) -> str:
    if not isinstance(value, str) or not _STATISTIC.fullmatch(value):
        raise QueryError(f"`{name}` must be the name of a statistic.")
    return value


def _pattern(value: object, name: str) -> str:
    """Return the text as an escaped regular expression: one from a browser could block a thread for years."""
    if not isinstance(value, str) or len(value) > LONGEST_PATTERN:
        raise QueryError(f"`{name}` must be text of at most {LONGEST_PATTERN} characters.")
    return f"(?i){re.escape(value)}"


_RANGE = {"first": _number(_STEPS), "last": _number(_STEPS), "rank": _number(range(MOST_RANKS))}
_COLUMNS = {"columns": _number(range(1, MOST_COLUMNS + 1))}
_SERIES = {"kind": _kind, "name": _text}

Checks = dict[str, Callable[[object, str], Any]]
FIELDS: dict[str, Checks] = {
    "scalars": {"names": _names, "points": _number(range(1, MOST_POINTS + 1)), **_RANGE},
    "heat": {"kind": _kind, "statistic": _statistic, "pattern": _pattern, **_COLUMNS, **_RANGE},
    "bands": {**_SERIES, **_COLUMNS, **_RANGE},
    "histogram": {**_SERIES, **_RANGE},
    "histograms": {**_SERIES, **_COLUMNS, **_RANGE},
    "table": {"kind": _kind, "step": _number(_STEPS), "rank": _RANGE["rank"]},
    "processes": {"rank": _RANGE["rank"]},
}
REQUIRED: dict[str, tuple[str, ...]] = {
    "scalars": ("names",),
    "heat": ("kind", "statistic"),
    "bands": ("kind", "name"),
    "histogram": ("kind", "name", "first", "last"),
    "histograms": ("kind", "name"),
    "table": ("kind",),
    "processes": (),
}
