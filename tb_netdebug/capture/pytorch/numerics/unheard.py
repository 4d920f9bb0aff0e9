"""What the code of a model prints while it is called once more: it was printed before."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Unheard:
    """A stream that drops what one thread writes and passes on everything else."""

    def __init__(self, stream: Any, thread: int) -> None:
        self._stream = stream
        self._thread = thread

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread:
            return len(text)
        written: int = self._stream.write(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def unheard() -> Iterator[None]:
    """Around code of this thread. A stream that this code has exchanged for another one stays as it is."""
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    lent = {
        name: Unheard(stream, threading.get_ident()) for name, stream in before.items() if stream is not None
    }
    for name, stream in lent.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in lent.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])
