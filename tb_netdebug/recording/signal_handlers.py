"""Recognize exceptions that the program's own handlers raised while our code was running."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import CO_VARARGS
from types import FrameType
from typing import Any


def is_from_a_handler(error: BaseException) -> bool:
    """Return whether a signal handler or a trace function of the program raised this exception.

    Python passes these functions the very frame that they interrupt. The handlers that are installed now tell
    less: one that raises may have restored the handler before it.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if any(each is trace.tb_frame for each in arguments_of(trace.tb_next.tb_frame)):
            return True
        trace = trace.tb_next
    return False


def arguments_of(frame: FrameType) -> Iterator[Any]:
    """Yield what the function of this frame was called with, as far as its names still hold it."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)
    for name in code.co_varnames[:count]:
        value = values.get(name)
        yield from value if type(value) is tuple else (value,)
