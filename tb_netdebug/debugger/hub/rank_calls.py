"""Sends one call to several ranks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tb_netdebug.debugger.hub.calls import Call, CallError
from tb_netdebug.debugger.hub.entry import SessionEntry
from tb_netdebug.debugger.hub.hub import Sessions

# How long to wait for the other ranks after the answer of the one that was called.
OTHERS_SECS = 1.0


def tell(
    sessions: Sessions, ranks: Sequence[SessionEntry], client: str, verb: str,
    wanted: Mapping[str, Mapping[str, Any] | None],
) -> dict[SessionEntry, Call]:  # fmt: skip
    """Call all these ranks; raise CallError if one of them cannot be reached, after calling the others."""
    calls: dict[SessionEntry, Call] = {}
    trouble: CallError | None = None
    for each in ranks:
        arguments = wanted[each.key]
        if arguments is None:
            continue
        try:
            calls[each] = sessions.ask(each, client, verb, arguments)
        except CallError as error:
            trouble = CallError(error.kind, f"Rank {each.session['rank']} could not be reached: {error}")
    if trouble is not None:
        settle(sessions, calls)
        raise trouble
    return calls


def settle(sessions: Sessions, calls: Mapping[SessionEntry, Call]) -> None:
    """Wait for all ranks a little: the next call builds on this one.

    A rank that waits for another is left out.
    """
    until = time.monotonic() + OTHERS_SECS
    for each, call in calls.items():
        call.wait(max(until - time.monotonic(), 0.0))
        sessions.forget(each, call)
