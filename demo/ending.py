"""Ends a program together with its children: on Ctrl-C, on a signal, and when something breaks."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

from board import BoardError
from children import Child, stop

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(Exception):  # noqa: N818  # somebody asked for it
    """The system asks the program to end."""


def run_to_the_end(body: Callable[[list[Child]], int], *, closing: str) -> int:
    """Return what `body` does, 0 after Ctrl-C, 1 when something is broken, 143 after SIGTERM.

    `body` puts all that it starts into the list. All of it has ended when `closing` is printed.
    """
    for number in ENDINGS:
        signal.signal(number, _terminate)
    children: list[Child] = []
    try:
        return body(children)
    except KeyboardInterrupt:
        print("\nStopped.", end=" ")
        return 0
    except Terminated:
        return 128 + signal.SIGTERM
    except (BoardError, OSError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    finally:
        for number in (signal.SIGINT, *ENDINGS):
            signal.signal(number, signal.SIG_IGN)  # it is being done already
        stop(children)
        print(closing, flush=True)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
