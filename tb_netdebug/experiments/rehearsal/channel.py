"""Messages from a held process to its keeper, one JSON line each; without a keeper they are dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress

_descriptors: list[int] = []


def open_to_keeper(descriptor: int) -> None:
    """Send messages to this descriptor from now on, in this process and its forked children."""
    os.set_blocking(descriptor, False)
    _descriptors.append(descriptor)


def descriptors() -> Sequence[int]:
    """Return the descriptors of the channel, to be handed to a spawned process."""
    return tuple(_descriptors)


def tell(kind: str, value: object) -> None:
    """Send a message that `keeper.Keeper` understands. Never block, never raise."""
    for descriptor in _descriptors:
        with suppress(OSError):  # the pipe is full, or the keeper is gone
            os.write(descriptor, f"{json.dumps([kind, value])}\n".encode())
