"""What a held process says to its keeper while it runs; nothing is said where there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress

_descriptors: list[int] = []


def open_to_keeper(descriptor: int) -> None:
    """From now on, in this process and in those that it forks."""
    os.set_blocking(descriptor, False)
    _descriptors.append(descriptor)


def descriptors() -> Sequence[int]:
    """For a process that is started anew."""
    return tuple(_descriptors)


def tell(kind: str, value: object) -> None:
    """What `keeper.Keeper` understands. Never waits, never raises."""
    for descriptor in _descriptors:
        with suppress(OSError):  # full, or nobody is there
            os.write(descriptor, f"{json.dumps([kind, value])}\n".encode())
