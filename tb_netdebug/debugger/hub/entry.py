"""The hub's record of one session: its state, its open calls, its pace."""

from __future__ import annotations

import hashlib
import json
from collections import deque

from tb_netdebug.debugger.hub.calls import GONE, Call
from tb_netdebug.debugger.protocol.statements import SessionJson, StateJson

# The speed of a run is computed over this much of the past.
LEAST_RATE_SECS, MOST_RATE_SECS = 0.15, 5.0
LEAST_RATE_STEPS = 2
# Until more is known: states arrive at about this rate.
USUAL_RATE = 20.0


class SessionEntry:
    """One session. `key` stays the same when a run comes by another agent.

    `trainer` is the collector's name for it, None while it is not connected. `training` is the same for all
    ranks of one run.
    """

    def __init__(self, key: str, trainer: str, session: SessionJson, state: StateJson) -> None:
        self.key = key
        self.trainer: str | None = None
        self.calls: dict[int, Call] = {}
        self.clients = 0
        # The pausing of all ranks that is still under way.
        self.course: object = None
        self.leased_at = 0.0
        self.lost_at = 0.0
        self.told_at = -1.0
        self.is_untold = False
        self._steps: deque[tuple[float, int]] = deque(maxlen=256)
        self._rate = USUAL_RATE  # the pace before it was paused
        self.greet(trainer, session, state)

    def greet(self, trainer: str, session: SessionJson, state: StateJson) -> None:
        """Note a connection, the first or a new one. The session has forgotten the calls of the old one."""
        self.forget_calls("The run reconnected in the meantime. Try again.")
        self.trainer, self.session, self.state = trainer, session, state
        self._steps.clear()
        self.clients = 0

    def lose(self, now: float) -> None:
        self.trainer, self.lost_at, self.clients = None, now, 0
        self.forget_calls("The connection to the run is lost.")

    def forget_calls(self, sentence: str) -> None:
        calls, self.calls = self.calls, {}
        for call in calls.values():
            call.fail(GONE, sentence)

    def take_state(self, state: StateJson, now: float) -> None:
        self.state = state
        self._steps.append((now, self.step))
        if self.is_paused:
            self._rate = self.steps_per_sec(now)
            self._steps.clear()

    @property
    def training(self) -> str:
        return self.session["group"] or self.key

    @property
    def is_connected(self) -> bool:
        return self.trainer is not None

    @property
    def is_paused(self) -> bool:
        return self.state["status"] == "paused"

    @property
    def step(self) -> int:
        return self.state["step"]

    def steps_per_sec(self, now: float) -> float:
        recent = [(at, step) for at, step in self._steps if now - at <= MOST_RATE_SECS]
        if not recent:
            return self._rate
        secs, steps = recent[-1][0] - recent[0][0], recent[-1][1] - recent[0][1]
        is_known = secs >= LEAST_RATE_SECS or (secs > 0 and steps >= LEAST_RATE_STEPS)
        return max(steps, 0) / secs if is_known else self._rate

    def age(self, now: float) -> float:
        """Return the age of its last known step."""
        return now - self._steps[-1][0] if self._steps else 0.0


def key_of(session: SessionJson) -> str:
    """Return the key of a session: the same for the same process and run, whichever way it comes."""
    named = json.dumps([session["run"], session["rank"], session["pid"], session["host"]])
    return hashlib.sha256(named.encode()).hexdigest()[:16]
