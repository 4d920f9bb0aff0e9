"""Calls to a training of several ranks: what steers it goes to all of them, and one answers.

They have to stop at the same place: a rank that is paused while the others run makes them wait in a
collective until that gives up. So `pause` means the end of a batch that none of them has reached yet.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tb_netdebug.debugger.calls import GONE, LATE, REFUSED, Call, CallError
from tb_netdebug.debugger.entry import Entry
from tb_netdebug.debugger.hub import Sessions
from tb_netdebug.debugger.verbs import VERBS, checked

# A verb that waits is answered by the session; if not, so much later by us.
SLACK_SECS = 0.5
# So far ahead ranks are told to stop, in the time that their batches take; twice as far after each failure.
AHEAD_SECS = 0.4
LONGEST_AGE_SECS = 1.0
TRIES = 5
# What one rank calls 3 may be 2 for another one, which refused one of them.
OWN_TO_A_RANK = ("id", "hits", "complaint")
LISTS = {"breakpoint": "breakpoints", "watchpoint": "watchpoints"}


def called(sessions: Sessions, client: str, key: str, verb: str, arguments: Mapping[str, Any]) -> Any:
    """The answer of the session that was asked. Raises CallError, and ArgumentError."""
    wanted = checked(verb, arguments)
    ranks = sessions.claim(client, key, steers=VERBS[verb].steers)
    if not VERBS[verb].is_for_all or len(ranks) == 1:
        return answer(sessions, ranks[0], sessions.ask(ranks[0], client, verb, wanted), wanted)
    if verb == "pause" and wanted["step"] is None and not any(each.is_paused for each in ranks):
        return pause_together(sessions, client, key, wanted)
    twins = {each.key: twin(ranks[0], each, verb, wanted) for each in ranks}
    call = sessions.ask(ranks[0], client, verb, wanted)
    tell(sessions, ranks[1:], client, verb, twins)
    return answer(sessions, ranks[0], call, wanted)


def answer(sessions: Sessions, entry: Entry, call: Call, wanted: Mapping[str, Any]) -> Any:
    """A verb that waits for the training to stop has one in any case: the newest state."""
    if not VERBS[call.verb].waits:
        return sessions.answer(entry, call)
    try:
        return sessions.answer(entry, call, secs=wanted["wait"] + SLACK_SECS)
    except CallError as error:
        if error.kind != LATE:
            raise
        return sessions.state_of(entry)


def tell(
    sessions: Sessions, ranks: Sequence[Entry], client: str, verb: str,
    wanted: Mapping[str, Mapping[str, Any] | None],
) -> None:  # fmt: skip
    """The other ranks, whose answers nobody waits for. Raises CallError when one of them cannot be told; all
    others were."""
    trouble: CallError | None = None
    for each in ranks:
        arguments = wanted[each.key]
        if arguments is None:
            continue
        try:
            sessions.forget(each, sessions.ask(each, client, verb, arguments))
        except CallError as error:
            trouble = CallError(error.kind, f"Rank {each.session['rank']} could not be told: {error}")
    if trouble is not None:
        raise trouble


# ---- pause at the same place


def pause_together(sessions: Sessions, client: str, key: str, wanted: Mapping[str, Any]) -> Any:
    """Raises CallError."""
    for attempt in range(TRIES):
        ranks = sessions.claim(client, key, steers=True)
        last = batch_ahead(ranks, now=sessions.clock(), secs=AHEAD_SECS * 2**attempt)
        found = _tried(sessions, ranks, client, {**wanted, "step": last})
        if found is not None:
            return found
    raise CallError(
        REFUSED,
        f"The ranks could not be paused together: after {TRIES} attempts one of them was still further than "
        "the batch at whose end all were to stop. They go on.",
    )


def batch_ahead(ranks: Sequence[Entry], *, now: float, secs: float) -> int:
    """A batch that no rank will have reached before it hears of it."""
    reached = [
        each.step + each.steps_per_sec(now) * (min(each.age(now), LONGEST_AGE_SECS) + secs) for each in ranks
    ]
    return max(max(each.step for each in ranks) + 1, math.ceil(max(reached)))


def _tried(sessions: Sessions, ranks: Sequence[Entry], client: str, wanted: Mapping[str, Any]) -> Any:
    """The state of the first rank; None when one was too late, and all were let go. Raises CallError."""
    ended: queue.SimpleQueue[Call] = queue.SimpleQueue()
    calls: dict[Call, Entry] = {}
    first: Call | None = None
    try:
        for each in ranks:
            call = sessions.ask(each, client, "pause", wanted, ended=ended.put)
            calls[call] = each
            first = first or call
        trouble = _first_trouble(ended, len(calls), wanted["wait"] + SLACK_SECS)
    except CallError as error:
        trouble = error
    for call, each in calls.items():
        sessions.forget(each, call)
    if trouble is None:
        return first.value if first is not None and first.is_done else sessions.state_of(ranks[0])
    with suppress(CallError):  # who cannot be told is not there
        tell(sessions, ranks, client, "continue", {each.key: {} for each in ranks})
    if trouble is not None and trouble.kind != GONE:
        raise trouble
    return None


def _first_trouble(ended: queue.SimpleQueue[Call], count: int, secs: float) -> CallError | None:
    """Of so many calls; None when all are answered well, or time is up, and the training is on its way."""
    until = time.monotonic() + secs
    for _ in range(count):
        try:
            call = ended.get(timeout=max(until - time.monotonic(), 0.0))
        except queue.Empty:
            return None
        if call.error is not None:
            return call.error
    return None


# ---- what has a number


def twin(asked: Entry, other: Entry, verb: str, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments for another rank, where the same breakpoint or watchpoint may have another number; None
    when it has none to remove."""
    name = LISTS.get(verb.partition("_")[2])
    if name is None or wanted["id"] is None or other is asked:
        return wanted
    meant = [_content(each) for each in asked.state[name] if each["id"] == wanted["id"]]
    found = [each["id"] for each in other.state[name] if meant and _content(each) == meant[0]]
    if wanted["id"] in found or not meant:
        return wanted
    if found:
        return {**wanted, "id": found[0]}
    return {**wanted, "id": None} if verb.startswith("set_") else None


def _content(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name not in OWN_TO_A_RANK}
