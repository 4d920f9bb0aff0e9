"""Calls to runs, also to those of several ranks: verbs that steer go to all of them, and one answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tb_netdebug.debugger.hub.calls import LATE, Call, CallError
from tb_netdebug.debugger.hub.entry import SessionEntry
from tb_netdebug.debugger.hub.hub import Sessions
from tb_netdebug.debugger.hub.pausing import Pausing
from tb_netdebug.debugger.hub.rank_calls import settle, tell
from tb_netdebug.debugger.protocol.verbs import VERBS, checked

# The session answers a verb that waits; if it does not, the hub does this much later.
SLACK_SECS = 0.5
# Verbs that say where the run goes, and replace what was asked before.
COURSES = ("pause", "continue", "step", "run_to", "detach")
# A breakpoint may be number 3 on one rank and number 2 on another, which refused an earlier one.
OWN_TO_A_RANK = ("id", "hits", "complaint")
LISTS = {"breakpoint": "breakpoints", "watchpoint": "watchpoints"}


def called(sessions: Sessions, client: str, key: str, verb: str, arguments: Mapping[str, Any]) -> Any:
    """Call a verb and return the session's answer; raise CallError or ArgumentError."""
    wanted = checked(verb, arguments)
    ranks = sessions.claim(client, key, steers=VERBS[verb].steers)
    if not VERBS[verb].is_for_all or len(ranks) == 1:
        return answer(sessions, ranks[0], sessions.ask(ranks[0], client, verb, wanted), wanted)
    if verb in COURSES:
        # This verb replaces a pausing that is still under way.
        for each in ranks:
            each.course = None
    if verb == "pause" and wanted["step"] is None and not any(each.is_paused for each in ranks):
        pausing = Pausing.start(sessions, client, ranks, wanted)
        return pausing.result(wanted["wait"] + SLACK_SECS) or sessions.state_of(ranks[0])
    twins = {each.key: twin(ranks[0], each, verb, wanted) for each in ranks}
    calls = tell(sessions, ranks, client, verb, twins)
    try:
        return answer(sessions, ranks[0], calls[ranks[0]], wanted)
    finally:
        settle(sessions, calls)


def answer(sessions: Sessions, entry: SessionEntry, call: Call, wanted: Mapping[str, Any]) -> Any:
    """Return the answer to a call; a verb that waits always has one, in doubt the newest state."""
    if not VERBS[call.verb].waits:
        return sessions.answer(entry, call)
    try:
        return sessions.answer(entry, call, secs=wanted["wait"] + SLACK_SECS)
    except CallError as error:
        if error.kind != LATE:
            raise
        return sessions.state_of(entry)


# ---- points with a number


def twin(
    asked: SessionEntry, other: SessionEntry, verb: str, wanted: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the arguments for another rank, whose number for the same point may differ.

    It is None if that rank has no such point to remove.
    """
    name = LISTS.get(verb.partition("_")[2])
    if name is None or wanted["id"] is None or other is asked:
        return wanted
    meant = [_content(each) for each in _points(asked, name) if each["id"] == wanted["id"]]
    found = [each["id"] for each in _points(other, name) if meant and _content(each) == meant[0]]
    if wanted["id"] in found or not meant:
        return wanted
    if found:
        return {**wanted, "id": found[0]}
    return {**wanted, "id": None} if verb.startswith("set_") else None


def _points(entry: SessionEntry, name: str) -> Sequence[Mapping[str, Any]]:
    state: Mapping[str, Any] = entry.state
    return cast("Sequence[Mapping[str, Any]]", state[name])


def _content(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name not in OWN_TO_A_RANK}
