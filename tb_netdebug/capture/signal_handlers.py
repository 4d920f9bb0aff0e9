"""Exceptions that a signal handler of the program has raised while code of ours was running."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType
from typing import Any


def is_from_a_handler(error: BaseException) -> bool:
    """Return whether the program itself raised it in answer to a signal: it was on its way to the program."""
    codes = set(handlers())
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def handlers() -> Iterator[CodeType]:
    """Yield the code of all handlers that are written in Python."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        with suppress(AttributeError):
            while hasattr(handler, "func"):  # a partial
                handler = handler.func
            function = getattr(handler, "__func__", handler)
            if not hasattr(function, "__code__"):
                function = type(function).__call__
            code = function.__code__
            if isinstance(code, CodeType):
                yield code
