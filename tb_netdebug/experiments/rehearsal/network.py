"""Reports which hosts a process connects to. No connection is blocked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

MOST_NAMED = 200


def name_connections(tell: Callable[[str], None]) -> None:
    """Pass each new address once to `tell`, in this process and its forked children."""
    known: set[str] = set()

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto") and len(known) < MOST_NAMED:
            named = name_of(arguments[1])
            if named and named not in known:
                known.add(named)
                tell(named)

    sys.addaudithook(look)


def name_of(address: Any) -> str:
    """Return host and port, or the path of a local socket; empty for a socket without a name."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = str(address[0])
        return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    if isinstance(address, str | bytes):
        return os.fsdecode(address).lstrip("\0")
    return ""
