"""Pauses all ranks of a run at the end of the same batch.

A rank that is paused anywhere else would make the others wait in a collective until that times out. No rank
knows where the others are, so the hub chooses a batch that none has reached. If a rank is past it by the time
it gets the call, all resume, and the hub tries again with a batch that is further away.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tb_netdebug.debugger.hub.calls import GONE, REFUSED, Call, CallError
from tb_netdebug.debugger.hub.entry import SessionEntry
from tb_netdebug.debugger.hub.hub import Sessions
from tb_netdebug.debugger.hub.rank_calls import settle, tell

# How far ahead, in the time of its batches; doubled after each failure.
AHEAD_SECS = 0.1
LONGEST_AGE_SECS = 1.0
TRIES = 5
# A rank in the middle of a long batch answers late; the others get the call to resume only then.
LONGEST_SECS = 600.0
LOOK_SECS = 0.2
# While one rank is paused, another one that does not answer most likely waits for it in the next batch. It
# gets this long, and this many of its batches, to arrive.
STUCK_SECS, STUCK_BATCHES = 1.0, 3
SLOWEST_RATE = 0.01


class Pausing:
    """Pauses all ranks of a run, on a thread of its own.

    It goes on when its caller no longer waits, until it succeeds or fails, or until another verb replaces it.
    """

    def __init__(
        self, sessions: Sessions, client: str, ranks: Sequence[SessionEntry], wanted: Mapping[str, Any]
    ) -> None:
        self._sessions = sessions
        self._client = client
        self._ranks = ranks
        self._wanted = wanted
        self._value: Any = None
        self._error: CallError | None = None
        self._ended = threading.Event()

    @classmethod
    def start(
        cls, sessions: Sessions, client: str, ranks: Sequence[SessionEntry], wanted: Mapping[str, Any]
    ) -> Pausing:
        pausing = cls(sessions, client, ranks, wanted)
        for each in ranks:
            each.course = pausing
        threading.Thread(target=pausing._run, name="netdebug-pausing", daemon=True).start()
        return pausing

    def result(self, secs: float) -> Any:
        """Return the state of the first rank, or None if it takes longer; raise CallError."""
        self._ended.wait(secs)
        if self._error is not None:
            raise self._error
        return self._value

    # ---- on the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._value = self._paused()
        except CallError as error:
            self._error = error
        finally:
            self._ended.set()

    def _paused(self) -> Any:
        """Try to pause all ranks; return None if another verb came in between. Raises CallError."""
        for attempt in range(TRIES):
            ahead = batch_ahead(self._ranks, now=self._sessions.clock(), secs=AHEAD_SECS * 2**attempt)
            trouble = self._tried({**self._wanted, "step": ahead})
            if not self._is_wanted:
                return None
            if trouble is None:
                return self._sessions.state_of(self._ranks[0])
            self._let_go()
            if trouble.kind != GONE:
                raise trouble
        raise CallError(
            REFUSED,
            f"The ranks could not be paused together: after {TRIES} attempts, one of them was still past "
            "the batch at whose end all should stop. They continue.",
        )

    def _tried(self, wanted: Mapping[str, Any]) -> CallError | None:
        """Return why one attempt failed, or None."""
        ended: queue.SimpleQueue[Call] = queue.SimpleQueue()
        calls: list[tuple[SessionEntry, Call]] = []
        try:
            for each in self._ranks:
                call = self._sessions.ask(each, self._client, "pause", wanted, ended=ended.put)
                calls.append((each, call))
            return self._first_trouble(ended, len(calls))
        except CallError as error:
            return error
        finally:
            for each, call in calls:
                self._sessions.forget(each, call)

    def _first_trouble(self, ended: queue.SimpleQueue[Call], pending: int) -> CallError | None:
        until = time.monotonic() + LONGEST_SECS
        while pending and self._is_wanted and time.monotonic() < until:
            with suppress(queue.Empty):
                call = ended.get(timeout=LOOK_SECS)
                if call.error is not None:
                    return call.error
                pending -= 1
            if any(each.is_paused for each in self._ranks):
                until = min(until, time.monotonic() + self._stuck_secs())
        return CallError(GONE, "One of the ranks does not answer.") if pending else None

    def _stuck_secs(self) -> float:
        slowest = min(each.steps_per_sec(self._sessions.clock()) for each in self._ranks)
        return STUCK_SECS + STUCK_BATCHES / max(slowest, SLOWEST_RATE)

    def _let_go(self) -> None:
        """Resume all ranks; one that cannot be reached is gone."""
        with suppress(CallError):
            wanted: dict[str, Mapping[str, Any] | None] = {each.key: {} for each in self._ranks}
            settle(self._sessions, tell(self._sessions, self._ranks, self._client, "continue", wanted))

    @property
    def _is_wanted(self) -> bool:
        return all(each.course is self for each in self._ranks)


def batch_ahead(ranks: Sequence[SessionEntry], *, now: float, secs: float) -> int:
    """Return a batch that no rank will have reached before it gets the call."""
    reached = [
        each.step + each.steps_per_sec(now) * (min(each.age(now), LONGEST_AGE_SECS) + secs) for each in ranks
    ]
    return max(max(each.step for each in ranks) + 1, math.ceil(max(reached)))
