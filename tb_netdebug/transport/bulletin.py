"""What people at the trainers' terminals read about the connection to the collector."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.trainee import Trainee

# An interruption shorter than this is not reported.
GRACE_SECS = 2.0
# The same for trainers that came for the debugger alone: they leave by themselves when TensorBoard has ended.
DEBUGGER_GRACE_SECS = 10.0
# The same state is reported to a run this often at most, also when the connection comes and goes.
AGAIN_SECS = 900.0
MOST_LETTERS = 400
TRYING, CONNECTED, LOST, REFUSED, HELD_UP = "trying", "connected", "lost", "refused", "held up"
TURNED_AWAY = "turned away"


class Bulletin:
    """The state of the connection, reported to trainers when it changes.

    Each run is notified through its process of the lowest rank on this host, and of the same state again
    after AGAIN_SECS at the earliest. A first connection is not reported.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._standing = TRYING
        self._reason = ""
        self._since = time.monotonic()
        self._debugs = True

    @property
    def is_hopeful(self) -> bool:
        """Whether what is sent now may arrive soon."""
        return self._standing in (TRYING, CONNECTED)

    @property
    def is_refused(self) -> bool:
        return self._standing == REFUSED

    def connected(self, *, debugs: bool) -> None:
        self._debugs = debugs
        self._set(CONNECTED)

    def lost(self, reason: str) -> None:
        self._set(LOST, reason)

    def refused(self, reason: str) -> None:
        self._set(REFUSED, reason)

    def held_up(self, reason: str) -> None:
        self._set(HELD_UP, reason)

    def turned_away(self, reason: str) -> None:
        """Note that a run or a file was refused for good, while the stream goes on."""
        self._set(TURNED_AWAY, reason)

    def tell(self, trainees: Iterable[Trainee], now: float) -> None:
        lowest: dict[tuple[tuple[str, ...], str], Trainee] = {}
        for each in trainees:
            if each.connection is not None:
                run = (tuple(each.join.run), each.join.identity)
                lowest[run] = min(each, lowest.get(run, each), key=lambda one: one.join.rank)
        for each in lowest.values():
            self.tell_one(each, now)
            self._tell_of_debugger(each)

    def tell_one(self, trainee: Trainee, now: float, *, at_once: bool = False) -> None:
        grace_secs = DEBUGGER_GRACE_SECS if trainee.join.records_stay else GRACE_SECS
        is_early = self._standing == LOST and now - self._since < grace_secs and not at_once
        sentence = "" if is_early or self._is_known(trainee, now) else self._sentence(trainee)
        if sentence:
            trainee.told[self._standing] = now
            trainee.tell(pb.ToTrainer(notice=sentence))

    def _tell_of_debugger(self, trainee: Trainee) -> None:
        """Tell an armed trainer, once, that no debugger listens at the collector."""
        if self._debugs or not trainee.join.takes_control or trainee.knows_undebugged:
            return
        trainee.knows_undebugged = True
        sentence = (
            f"nobody can debug this training: {self._target} is a collector without a debugger (`netdebug "
            "collect`). Let TensorBoard collect instead (`tensorboard --netdebug_listen`), or give debugger= "
            "the address at which a TensorBoard does."
        )
        trainee.tell(pb.ToTrainer(notice=sentence))

    def _set(self, standing: str, reason: str = "") -> None:
        if standing != self._standing:
            self._since = time.monotonic()
        self._standing, self._reason = standing, printable(reason)

    def _is_known(self, trainee: Trainee, now: float) -> bool:
        if self._standing == CONNECTED and max(trainee.told, key=trainee.told.__getitem__, default="") in (
            "",
            CONNECTED,
        ):
            return True  # nothing but the normal state was ever reported
        return now - trainee.told.get(self._standing, -AGAIN_SECS) < AGAIN_SECS

    def _sentence(self, trainee: Trainee) -> str:
        if trainee.join.records_stay:
            return self._sentence_of_debugger()
        waiting = f"The training goes on, and its records wait in {trainee.join.run_dir}."
        if self._standing == CONNECTED:
            return f"the collector at {self._target} answers; what has waited is being sent."
        if self._standing == LOST:
            return (
                f"the collector at {self._target} cannot be reached ({self._reason}). {waiting} They are "
                "sent as soon as it answers."
            )
        if self._standing == REFUSED:
            return f"nothing is sent to the collector at {self._target}: {self._reason} {waiting}"
        if self._standing == HELD_UP:
            return f"the collector at {self._target} takes no more for now: {self._reason} {waiting}"
        if self._standing == TURNED_AWAY:
            return (
                f"the collector at {self._target} does not take all records: {self._reason} The training "
                f"goes on, and they stay in {trainee.join.run_dir}."
            )
        return ""

    def _sentence_of_debugger(self) -> str:
        if self._standing == CONNECTED:
            return f"the debugger at {self._target} answers."
        if self._standing == LOST:
            return (
                f"the debugger at {self._target} cannot be reached ({self._reason}). The training goes on, "
                "and connects as soon as it answers."
            )
        if self._standing in (REFUSED, TURNED_AWAY):
            return f"the debugger at {self._target} does not take this training: {self._reason}"
        return ""


def printable(text: str) -> str:
    """Return text from a peer without characters that a terminal would act on, and cut to length."""
    return "".join(each if each.isprintable() else " " for each in text)[:MOST_LETTERS].strip()
