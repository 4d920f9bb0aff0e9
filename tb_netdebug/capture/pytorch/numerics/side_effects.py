"""Lists and dictionaries that a forward pass may fill, so that they can be put back after a repetition.

Searched are the attributes of modules, and what the code of their `forward` and of their hooks has at hand:
variables of the functions around it, the module's own globals that it names, and the object of a method.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

CONTAINERS = (dict, OrderedDict, defaultdict, list, set, deque)
HOOKS = ("_forward_pre_hooks", "_forward_hooks")
# So deep, and in so big ones, more are looked for; what is bigger still is data, not put aside by a model.
MOST_DEPTH = 3
MOST_SEARCHED = 1000
MOST_COPIED = 1_000_000


class Contents:
    """What the containers of these modules hold now; `put_back` makes them hold it again."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._kept: dict[int, tuple[Any, Any]] = {}
        for module in modules:
            self._keep_all(vars(module).values())
            forward = type(module).forward
            if not str(getattr(forward, "__module__", "")).startswith("torch."):
                self._keep_all(at_hand(forward))
            for name in HOOKS:
                for hook in getattr(module, name).values():
                    self._keep_all(at_hand(hook))

    def put_back(self) -> None:
        for container, inside in self._kept.values():
            if is_same(container, inside):
                continue
            container.clear()
            if isinstance(container, list | deque):
                container.extend(inside)
            else:
                container.update(inside)

    def _keep_all(self, values: Iterable[Any], depth: int = 0) -> None:
        for value in values:
            if type(value) not in CONTAINERS or id(value) in self._kept or len(value) > MOST_COPIED:
                continue
            self._kept[id(value)] = value, value.copy()
            if depth < MOST_DEPTH and len(value) <= MOST_SEARCHED:
                self._keep_all(value.values() if isinstance(value, dict) else value, depth + 1)


def at_hand(function: Any) -> Iterator[Any]:
    """The values that the code of a function can reach without being given them."""
    if isinstance(function, partial):
        yield from (*function.args, *function.keywords.values())
        yield from at_hand(function.func)
    elif isinstance(function, MethodType):
        yield from getattr(function.__self__, "__dict__", {}).values()
        yield from at_hand(function.__func__)
    elif isinstance(function, FunctionType):
        yield from (cell.cell_contents for cell in function.__closure__ or () if not is_empty(cell))
        yield from (
            function.__globals__[name] for name in names_in(function.__code__) if name in function.__globals__
        )
    elif not isinstance(function, type):
        yield from getattr(function, "__dict__", {}).values()


def names_in(code: CodeType) -> Iterator[str]:
    """Of globals, those of functions inside of it, too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def is_same(container: Any, before: Any) -> bool:
    """Whether it holds the very same objects; comparing their values would compare tensors."""
    if len(container) != len(before):
        return False
    if isinstance(container, Mapping):
        return all(
            key == other and value is old
            for (key, value), (other, old) in zip(container.items(), before.items(), strict=True)
        )
    if isinstance(container, set):
        return bool(container == before)
    return all(value is old for value, old in zip(container, before, strict=True))
