"""Read the parts of the user's containers without calling a method of their classes.

A class may compute its answers, draw random numbers or count calls. So parts are taken with the methods of
the built-in type below a class, and from the attributes that an instance stores; a container of another kind
is not opened.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

Parts = list[tuple[Any, Any]]

# Inputs and outputs of layers may be nested. A structure deeper, wider or larger than this is data: only its
# first parts are inspected, because that happens in every step.
MOST_DEPTH = 4
MOST_PARTS = 32
MOST_LEAVES = 512

# Taken from `type` itself, because a metaclass may override them.
bases_of = type.__dict__["__mro__"].__get__
members_of = type.__dict__["__dict__"].__get__

PLAIN = (int, float, bool, str, type(None))
CONVERSIONS: dict[type, Callable[[Any], Any]] = {int: int.__int__, float: float.__float__, str: str.__str__}
COLLECTIONS = frozenset({Mapping, Sequence})

FIELDS = "__dataclass_fields__"
MISSING = object()


def parts_of(value: Any, most: int) -> Parts | None:
    """Return the first `most` parts with their keys, positions or names; None for what is not opened."""
    kind = type(value)
    items = items_of(value, most)
    if items is not None:
        return items
    if issubclass(kind, list):
        return list(enumerate(list.__getitem__(value, slice(most))))
    if issubclass(kind, tuple):
        return list(enumerate(tuple.__getitem__(value, slice(most))))
    fields = fields_of(kind)
    if fields is None:
        return None
    found = ((name, stored(value, name)) for name in fields)
    return list(islice(((name, each) for name, each in found if each is not MISSING), most))


def share_of(most: int, parts: Parts) -> int:
    """Return how many of `most` leaves each of these parts may have, so that none crowds out another."""
    return max(most // len(parts), 1)


def items_of(value: Any, most: int | None = None) -> Parts | None:
    """Return the first items of a dictionary of any class, or of a UserDict; None for other values."""
    if UserDict in bases_of(type(value)):
        value = stored(value, "data")
    return list(islice(dict.items(value), most)) if issubclass(type(value), dict) else None


def fields_of(kind: type) -> list[str] | None:
    """Return the names of the fields of a dataclass; None for other classes."""
    for base in bases_of(kind):
        fields = members_of(base).get(FIELDS)
        if type(fields) is dict:
            return [name for name in fields if type(name) is str]
    return None


def stored(value: Any, name: str) -> Any:
    """Return an attribute that the instance itself stores, in its dictionary or a slot; else MISSING."""
    for base in bases_of(type(value)):
        members = members_of(base)
        descriptor = members.get("__dict__")
        if type(descriptor) is GetSetDescriptorType:
            attributes = descriptor.__get__(value)
            if type(attributes) is dict and name in attributes:
                return attributes[name]
        slot = members.get(name)
        if type(slot) is MemberDescriptorType:
            try:
                return slot.__get__(value)
            except AttributeError:  # declared, but not set
                return MISSING
    return MISSING


def key_text(key: Any, place: int) -> str:
    """Return a key as text; its position where only the key's own class could format it."""
    parts = key if type(key) is tuple else (key,)
    if all(type(each) in PLAIN for each in parts):
        return str(key)
    text = plain_atom(key)
    return str(place if text is None else text)


def plain_atom(value: Any) -> int | float | str | None:
    """Return the number or text in a value of a subclass, such as an enum member; None for other values."""
    for built_in, convert in CONVERSIONS.items():
        if issubclass(type(value), built_in):
            found: int | float | str = convert(value)
            return found
    return None


def is_closed(value: Any) -> bool:
    """Return whether this is a collection that only its own methods could open."""
    return parts_of(value, 0) is None and not COLLECTIONS.isdisjoint(bases_of(type(value)))
