"""Of what a GradientTape takes the gradients, while somebody wants to know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import tensorflow as tf

from tb_netdebug.capture.keras.autograph import unconverted

TAPE = tf.GradientTape
# Is given what is descended, and the variables that it is descended by.
Told = Callable[[Any, Any], None]

_changing = threading.RLock()
_told: tuple[Told, ...] = ()
_original: Any = None


@contextmanager
def following_tapes(told: Told) -> Iterator[None]:
    """Inside of this block."""
    follow_tapes(told)
    try:
        yield
    finally:
        leave_tapes(told)


def follow_tapes(told: Told) -> None:
    """From now on; the first one puts the hook on."""
    global _told, _original
    with _changing:
        if not _told:
            _original = TAPE.gradient
            TAPE.gradient = hooked(_original)
        _told = (*_told, told)


def leave_tapes(told: Told) -> None:
    """The last one takes the hook off. Harmless for one that does not follow."""
    global _told
    with _changing:
        before = _told
        _told = tuple(each for each in before if each != told)
        if before and not _told:
            TAPE.gradient = _original


def hooked(original: Any) -> Any:
    @unconverted
    @wraps(original)
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        for told in _told:
            told(target, sources)
        return original(self, target, sources, *args, **kwargs)

    return gradient
