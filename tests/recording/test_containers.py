"""What lies in containers is found without running code of their classes."""

from __future__ import annotations

import enum
import sys
from collections import Counter, OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

import tb_netdebug as nd
from tb_netdebug.frameworks.torch.numerics.portable import Portable
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.containers import is_closed, key_text, parts_of, plain_atom
from tests.support.loops import our_warnings

CALLED = Counter[str]()


class Watchful:
    """Notices every method that is called and every attribute that is asked for."""

    def __getattribute__(self, name: str) -> Any:
        CALLED[name] += 1
        return super().__getattribute__(name)


def noticing(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        CALLED[name] += 1
        return getattr(super(type(self), self), name)(*args)

    return method


METHODS = ("__getitem__", "__iter__", "__len__", "__eq__", "__bool__", "__str__", "__repr__", "__format__")


def watchful(base: type, *more: str) -> Any:
    """Return a subclass of a built-in type that notices all that is done with it."""
    methods = {name: noticing(name) for name in (*METHODS, *more) if hasattr(base, name)}
    return type(f"Own{base.__name__}", (Watchful, base), methods | {"__hash__": None})


@dataclass
class Fields(Watchful):
    hidden: Any
    other: Any = None
    shared: ClassVar[int] = 3

    @property
    def computed(self) -> Any:
        CALLED["computed"] += 1
        return self.hidden


@dataclass(slots=True)
class Slots:
    hidden: Any
    unset: Any = field(init=False)


@dataclass
class Output(OrderedDict[str, Any]):
    """As those of transformers: entries and fields at once."""

    logits: Any = None
    loss: Any = None

    def __post_init__(self) -> None:
        dict.__setitem__(self, "logits", self.logits)


class Lazy(Mapping[str, Any]):
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getitem__(self, key: str) -> Any:
        CALLED["__getitem__"] += 1
        return self.inner

    def __iter__(self) -> Iterator[str]:
        CALLED["__iter__"] += 1
        return iter(["logits"])

    def __len__(self) -> int:
        CALLED["__len__"] += 1
        return 1


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        CALLED[name] += 1
        return super().__getattribute__(name)


class OfMeta(metaclass=Meta):
    pass


Pair = namedtuple("Pair", "first second")
ONE, TWO = torch.ones(1), torch.ones(2)

OwnUserDict = watchful(UserDict, "items", "keys", "values")
OPENED: dict[str, tuple[Any, list[tuple[Any, Any]]]] = {
    "dict": ({"a": ONE}, [("a", ONE)]),
    "list": ([ONE, TWO], [(0, ONE), (1, TWO)]),
    "named tuple": (Pair(ONE, TWO), [(0, ONE), (1, TWO)]),
    "default dict": (defaultdict(list, a=ONE), [("a", ONE)]),
    "own dict": (watchful(dict, "items", "keys", "values", "get")(a=ONE), [("a", ONE)]),
    "own list": (watchful(list)([ONE]), [(0, ONE)]),
    "own tuple": (watchful(tuple)([ONE]), [(0, ONE)]),
    "UserDict": (OwnUserDict(a=ONE), [("a", ONE)]),
    "data class": (Fields(ONE), [("hidden", ONE), ("other", None)]),
    "slots": (Slots(ONE), [("hidden", ONE)]),
    "output of transformers": (Output(ONE), [("logits", ONE)]),
}


@pytest.mark.parametrize("name", OPENED)
def test_parts_are_found_without_a_call(name: str) -> None:
    """Keys and values, while no method, property or attribute of the class is asked for."""
    value, expected = OPENED[name]
    CALLED.clear()
    found = parts_of(value, 32)
    assert {} == dict(CALLED)
    assert found is not None
    assert [key for key, _ in expected] == [key for key, _ in found]
    assert all(one is other for (_, one), (_, other) in zip(expected, found, strict=True))


@pytest.mark.parametrize("value", [Lazy(ONE), OfMeta(), Watchful(), object(), 3, "text", None, Fields])
def test_other_values_stay_closed(value: Any) -> None:
    """Nothing is found in them, and nothing of theirs is called."""
    CALLED.clear()
    assert parts_of(value, 32) is None
    assert [] == list(tensors_in(value))
    assert {} == dict(CALLED)


def test_only_collections_are_said_to_be_closed() -> None:
    """Whoever puts out an object of another kind has never been told about it."""
    assert [True, False, False, False] == [
        is_closed(each) for each in (Lazy(ONE), object(), [ONE], Fields(ONE))
    ]


def test_only_so_many_parts_are_taken() -> None:
    """Of anything that is long."""
    assert [2, 2] == [len(parts_of(each, 2) or []) for each in (list(range(9)), dict.fromkeys(range(9)))]


def test_tensors_have_their_places() -> None:
    """Through several levels; of packed sequences the data."""
    nested = {"a": [ONE, Pair(TWO, None)], ("user", "item"): ONE, Fields: TWO}
    assert ["[a][0]", "[a][1][0]", "[('user', 'item')]", "[2]"] == [place for place, _ in tensors_in(nested)]
    assert ["[data]"] == [place for place, _ in tensors_in(pack_sequence([TWO]))]


def grown(leaf: Any, depth: int) -> Any:
    return leaf if depth == 0 else [grown(leaf, depth - 1) for _ in range(40)]


def calls_of_ours(value: Any) -> int:
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and "tb_netdebug" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        list(tensors_in(value))
    finally:
        sys.setprofile(None)
    return calls


def test_a_part_of_a_huge_structure_is_looked_at() -> None:
    """Whatever it is made of, and without a large part hiding the small ones behind it."""
    huge = grown(1.0, 4)
    found = dict(tensors_in({"huge": huge, "images": [TWO] * 32, "boxes": [[TWO] * 4] * 32, "x": TWO}))
    assert 32 + 32 * 4 + 1 == len(found)
    assert {"[x]", "[images][31]", "[boxes][31][3]"} <= found.keys()
    assert 512 == len(list(tensors_in(grown(TWO, 2)[:16] + [grown(TWO, 3)] * 16)))
    assert calls_of_ours(huge) < 20_000


class Number(enum.IntEnum):
    THREE = 3


@pytest.mark.parametrize(("value", "expected"), [(2.0, 2.0), (5, 5), ("word", "word")])
def test_numbers_are_not_converted_by_their_own_methods(value: Any, expected: Any) -> None:
    """What a subclass of a number or a text holds is read as the built-in type reads it."""
    own = watchful(type(value), "__float__", "__int__", "__index__", "__add__")(value)
    CALLED.clear()
    found = plain_atom(own)
    carried = Portable().of([own, {own.__class__: own}], "x")
    assert expected == found == carried[0]
    assert type(expected) is type(found) is type(carried[0])
    assert {"__class__"} >= set(CALLED)
    assert (3, int) == (plain_atom(Number.THREE), type(plain_atom(Number.THREE)))


def test_keys_are_written_without_their_own_code() -> None:
    """Enumerations as their numbers, what cannot be written as its place."""
    own = watchful(str)("name")
    CALLED.clear()
    assert ["3", "name", "7", "None", "(1, 'a')"] == [
        key_text(key, 7) for key in (Number.THREE, own, Fields, None, (1, "a"))
    ]
    assert {} == dict(CALLED)


def test_a_closed_output_is_reported_once(logdir: Path) -> None:
    """With the class that would have to open it; the run goes on and nothing of it is called."""

    class Heads(nn.Linear):
        def forward(self, x: torch.Tensor) -> Any:
            return Lazy(super().forward(x))

    model = nn.Sequential(Heads(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    CALLED.clear()
    with our_warnings() as told, nd.watch(model, optimizer, logdir=logdir, every=1) as monitor:
        for _ in range(3):
            loss = model(torch.randn(4, 3)).inner.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    assert {} == dict(CALLED)
    assert ["NetDebug: the output of 0 is not watched: a Lazy can only be opened by its own code."] == told
