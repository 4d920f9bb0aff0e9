"""Shorter thread switches while heavy work runs beside the streams.

Python lets a thread keep the GIL for 5 ms before another one gets it, and a thread that reads files releases
it and waits for it again many times a read. With some threads computing, a read of some milliseconds takes up
to half a second. So while heavy work runs, the switch interval is shorter.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SHORT_TURN_SECS = 0.001

_lock = threading.Lock()
_at_work = 0
# Python's default; read anew by each first caller, as the program may have set another.
_usual_secs = 0.005


@contextmanager
def short_turns() -> Iterator[None]:
    """Shorten the switch interval of the whole process until the last caller has left."""
    global _at_work, _usual_secs
    with _lock:
        if _at_work == 0:
            _usual_secs = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual_secs, SHORT_TURN_SECS))
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if _at_work == 0:
                sys.setswitchinterval(_usual_secs)
