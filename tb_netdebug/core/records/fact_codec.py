"""Typed facts into plain JSON values and back, and both into the facts that a step block stores.

A reader trusts nothing: a value of the wrong type counts as missing, and a fact without what it cannot do
without is dropped. Facts of unknown kinds are stored and read as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.errors import DamagedBlock, require
from tb_netdebug.core.records.facts import KINDS, Names, ParameterGroup, Shape, TypedFact
from tb_netdebug.core.records.step import Fact

MOST_FACTS = 4096
# Limit for one fact; its producer shortens what would be longer, such as a thousand parameter names.
MOST_FACT_BYTES = 1 << 18
# Up to here a float holds every integer, and products of a few such sizes are floats, too.
MOST_COUNT = 1 << 53

Reader = Callable[[Any], Any]


class MisfitError(ValueError):
    """A stored value is not of the type of its field."""


class StoredField(NamedTuple):
    """A field of a class of facts, and how it is stored."""

    name: str
    key: str
    is_omitted: bool  # it has no key if it is None
    read: Reader


_FIELDS: dict[type[Any], tuple[StoredField, ...]] = {}


# ---- typed facts -----------------------------------------------------------------------------------------


def encode_fact(fact: TypedFact) -> Fact:
    """Return the fact as it is stored."""
    values = [(each, plain(getattr(fact, each.name))) for each in stored_fields(type(fact))]
    told = {each.key: value for each, value in values if value is not None or not each.is_omitted}
    return Fact(fact.KIND, told)


def decode_fact(stored: Fact) -> TypedFact | None:
    """Return the typed fact; None if its kind is unknown, or if it lacks what it cannot do without."""
    kind = KINDS.get(stored.kind)
    if kind is None:
        return None
    try:
        return kind(**read_fields(kind, stored.data))
    except (MisfitError, TypeError):  # TypeError: a field that has no default is missing
        return None


def stored_fields(kind: type[Any]) -> tuple[StoredField, ...]:
    """Return the fields of a class, in the order in which they are declared."""
    known = _FIELDS.get(kind)
    if known is None:
        known = _FIELDS[kind] = tuple(described(kind))
    return known


def described(kind: type[Any]) -> Iterator[StoredField]:
    types = get_type_hints(kind)
    for each in fields(kind):
        yield StoredField(
            name=each.name,
            key=each.metadata.get("key", each.name),
            is_omitted=each.metadata.get("omitted", False),
            read=reader_of(types[each.name]),
        )


def read_fields(kind: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are there and fit, by name; raise MisfitError for an id that does not."""
    found = {}
    for each in stored_fields(kind):
        if each.key in data:
            try:
                found[each.name] = each.read(data[each.key])
            except MisfitError:
                if each.name == "id":  # its default would be the id of another fact
                    raise
    return found


def plain(value: Any) -> Any:
    """Return the value as JSON has it."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if is_dataclass(value):
        return {each.key: plain(getattr(value, each.name)) for each in stored_fields(type(value))}
    return value


# ---- values of a stored fact -----------------------------------------------------------------------------


def reader_of(wanted: Any) -> Reader:
    """Return what reads a value of this type out of JSON, and raises MisfitError for any other."""
    options = get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)
    return first_of([READERS[each] for each in options]) if len(options) > 1 else READERS[wanted]


def first_of(readers: Sequence[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for each in readers:
            try:
                return each(value)
            except MisfitError:
                continue
        raise MisfitError

    return read


def tuple_of(read_one: Reader) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise MisfitError
        return tuple(map(read_one, value))

    return read


def instance_of(wanted: type) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, wanted):
            raise MisfitError
        return value

    return read


def read_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNT:
        raise MisfitError
    return value


def read_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MisfitError
    try:
        return float(value)
    except OverflowError:
        raise MisfitError from None


def read_shape(value: Any) -> Shape:
    shape: Shape = tuple_of(read_count)(value)
    if math.prod(shape) > MOST_COUNT:
        raise MisfitError
    return shape


def read_group(value: Any) -> ParameterGroup:
    if not isinstance(value, dict):
        raise MisfitError
    return ParameterGroup(**read_fields(ParameterGroup, value))


READERS: dict[Any, Reader] = {
    type(None): instance_of(type(None)),
    bool: instance_of(bool),
    int: read_count,
    float: read_number,
    str: instance_of(str),
    Names: tuple_of(instance_of(str)),
    Shape: read_shape,
    tuple[Shape, ...]: tuple_of(read_shape),
    tuple[ParameterGroup, ...]: tuple_of(read_group),
}


# ---- in a block ------------------------------------------------------------------------------------------


def put_facts(rows: Iterable[Sequence[Fact]]) -> list[pb.Fact]:
    """Encode the facts of all rows.

    Values that JSON does not know become text; facts beyond the limits of a reader are dropped.
    """
    put: list[pb.Fact] = []
    for row, facts in enumerate(rows):
        for fact in facts:
            data = json.dumps(fact.data, default=str, ensure_ascii=True).encode()
            if len(data) <= MOST_FACT_BYTES and len(put) < MOST_FACTS:
                put.append(pb.Fact(row=row, kind=fact.kind.encode("utf-8", "replace"), data=data))
    return put


def get_facts(stored: Sequence[pb.Fact], *, rows: int) -> list[tuple[int, Fact]]:
    """Return each fact with its row; raise DamagedBlock."""
    require(len(stored) <= MOST_FACTS, f"a block claims {len(stored)} facts")
    return [(_row(each.row, rows), _fact(each)) for each in stored]


def _row(row: int, rows: int) -> int:
    require(row < rows, "a fact belongs to no step of its block")
    return row


def _fact(stored: pb.Fact) -> Fact:
    require(len(stored.data) <= MOST_FACT_BYTES, "a fact is too big")
    try:
        data = json.loads(stored.data)
    except (ValueError, RecursionError):
        raise DamagedBlock("a fact is not readable") from None
    require(isinstance(data, dict), "a fact is not an object")
    return Fact(stored.kind.decode("utf-8", "replace"), data)
