"""Variables of the user's program as text, without running their code or revealing secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from tb_netdebug.debugger.tensors.host_tensor import host_summary
from tb_netdebug.debugger.tensors.tensor_text import head_of, is_tensor, numbers_of

MOST_VARIABLES = 60
MOST_LETTERS = 200
MOST_TEXT = 80
MOST_ITEMS = 8
MOST_DEPTH = 3
MOST_BITS = 256
# For one stack, no more values than these are read; further tensors are described by their shape.
MOST_VALUES = 1 << 24

# "auth" is a secret, "author" is not.
SECRET = re.compile(
    r"pass(word|wd|phrase|code)|pwd|secret|token|credential|auth(?!or)|(^|_|api)keys?($|_)", re.IGNORECASE
)
NOT_SHOWN = "not shown: its name sounds private"
_CODE = (ModuleType, FunctionType, MethodType, BuiltinFunctionType, type)
_PLAIN = (int, float, complex, bool, type(None))
_BOUNDARIES: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}"), dict: ("{", "}"),
}  # fmt: skip
# Read as the interpreter does: the metaclass is not asked.
_qualified_name = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__


class Variables:
    """Describes the variables of several frames; the limit on values counts over all of them."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def of(self, variables: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        shown = [(name, value) for name, value in list(variables.items()) if _is_shown(name, value)]
        for name, value in shown[:MOST_VARIABLES]:
            text = NOT_SHOWN if _is_private(name, value) else self._text(value, MOST_DEPTH)
            yield {"name": name[:MOST_TEXT], "type": type_name(value), "text": _cut(text, MOST_LETTERS)}

    def _text(self, value: Any, depth: int) -> str:
        kind = type(value)
        if is_tensor(value):
            return self._tensor(value)
        if kind is int and value.bit_length() > MOST_BITS:
            return f"a whole number of {value.bit_length()} bits"
        # These very types: a subclass may have a __repr__ of the user's own.
        if _is_one_of(kind, _PLAIN):
            return repr(value)
        if kind is str:
            more = f" and {len(value) - MOST_TEXT} more" if len(value) > MOST_TEXT else ""
            return repr(value[:MOST_TEXT]) + more
        if kind is bytes or kind is bytearray:
            return f"{len(value)} bytes"
        if _is_one_of(kind, _BOUNDARIES):
            return self._container(value, depth)
        return f"<{type_name(value)}>"

    def _tensor(self, value: Any) -> str:
        if _module_of(type(value)).partition(".")[0] not in ("torch", "numpy"):
            return f"<{type_name(value)}>"  # its shape may be a property of the user's class
        count = 1
        for length in value.shape:
            count *= length
        if not 0 < count <= self._left:
            return head_of(value)
        self._left -= count
        summary = host_summary(value)
        return head_of(value) if summary is None else f"{head_of(value)}  {numbers_of(summary)}".rstrip()

    def _container(self, value: Any, depth: int) -> str:
        opening, closing = _BOUNDARIES[type(value)]
        if not depth:
            return f"{opening}…{closing}" if value else opening + closing
        if type(value) is dict:
            pairs: list[tuple[Any, Any]] = list(value.items())
            told = [self._pair(key, each, depth) for key, each in pairs[:MOST_ITEMS]]
        else:
            told = [self._text(each, depth - 1) for each in list(value)[:MOST_ITEMS]]
        more = [f"… {len(value) - len(told)} more"] if len(value) > len(told) else []
        return f"{opening}{', '.join(told + more)}{closing}"

    def _pair(self, key: Any, value: Any, depth: int) -> str:
        is_private = type(key) is str and _is_private(key, value)
        return f"{self._text(key, 0)}: {'(not shown)' if is_private else self._text(value, depth - 1)}"


def type_name(value: Any) -> str:
    return str(_qualified_name(type(value)))[:MOST_TEXT]


def _is_private(name: str, value: Any) -> bool:
    return SECRET.search(name) is not None and not is_tensor(value)


def _is_shown(name: str, value: Any) -> bool:
    """Return whether a variable is shown: modules, functions and dunder names of a file are not."""
    is_code = _is_one_of(type(value), _CODE)
    return type(name) is str and not is_code and not (name.startswith("__") and name.endswith("__"))


def _is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """Compare by identity: a metaclass may define equality of its classes."""
    return any(kind is each for each in kinds)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
