"""Finds calls of `functional.dropout` without `training=`, which `model.eval()` does not switch off."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

from torch import nn
from torch.nn import functional

from tb_netdebug.frameworks.torch.frames import FOREIGN
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.recording.frames import is_ours, place_of

FUNCTIONS = (
    functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d,
    functional.alpha_dropout, functional.feature_alpha_dropout,
)  # fmt: skip
NAMES = frozenset(function.__name__ for function in FUNCTIONS)
# The index of each argument in (input, p, training, inplace).
SHARE, TRAINING = 1, 2
MOST_PLACES = 16
# Parsed within the user's call of dropout; a longer file would take too long there.
MOST_LINES = 20_000
# Calls are watched in this many evaluations; later ones call the same lines.
EVALUATIONS = 3


class FunctionalDropout:
    """Watches dropout calls while a model is evaluated; `places` are the lines that drop units then.

    A program that passes `training=True` means it, for example to sample several answers. A line whose
    source cannot be read is left alone.
    """

    def __init__(self) -> None:
        self.places: list[str] = []
        self._left = EVALUATIONS
        self._handles: list[Handle] = []
        self._model: nn.Module | None = None
        self._known: set[tuple[str, int]] = set()

    def listen(self, model: nn.Module) -> None:
        """Watch the calls until the end of the step."""
        self._model = model
        if not self._handles and self._left:
            self._left -= 1
            self._handles = [listen(function, before=self._called) for function in FUNCTIONS]

    def close(self) -> None:
        for handle in self._handles:
            handle.close()
        self._handles, self._model = [], None

    def _called(self, given: tuple[Any, ...]) -> None:
        """Check a call. Runs inside the user's call, and does not raise."""
        if self._model is None or self._model.training or not given[TRAINING] or not given[SHARE]:
            return
        with suppress(SyntaxError, ValueError, RecursionError):  # the source is not Python
            self._look(caller())

    def _look(self, frame: FrameType | None) -> None:
        if frame is None or len(self.places) >= MOST_PLACES:
            return
        path, line = frame.f_code.co_filename, frame.f_lineno
        if (path, line) not in self._known:
            self._known.add((path, line))
            if forgets_training(path, line):
                self.places.append(place_of(frame))


def caller() -> FrameType | None:
    """Return the frame that called the watched function, or None if that is torch, whose modules pass it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code):
        frame = frame.f_back
    return None if frame is None or frame.f_code.co_filename.startswith(FOREIGN) else frame


def forgets_training(path: str, line: int) -> bool:
    """Return whether the line calls these functions, and no call on it passes `training`."""
    lines = linecache.getlines(path)
    if not lines or len(lines) > MOST_LINES:
        return False
    found = [call for call in dropouts(ast.parse("".join(lines))) if call.lineno <= line <= last_line(call)]
    return bool(found) and not any(map(says_training, found))


def dropouts(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in NAMES:
                yield node


def last_line(call: ast.Call) -> int:
    return call.lineno if call.end_lineno is None else call.end_lineno


def says_training(call: ast.Call) -> bool:
    """Return whether a call passes `training`, or may do so in arguments known only at run time."""
    return (
        len(call.args) > TRAINING
        or any(isinstance(each, ast.Starred) for each in call.args)
        or any(each.arg in ("training", None) for each in call.keywords)
    )
