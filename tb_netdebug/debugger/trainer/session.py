"""The debugger's session in the training process: where the run is, whether it is paused, and who attends.

Three threads meet here. The channel's thread puts calls into the inbox and renews the lease. The training
thread takes the calls at the places that it passes, and waits in `visit` while it is paused. Threads of a
framework's backward pass visit, too, one at a time. Everything but inbox and lease belongs to the thread that
visits.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any, cast

from tb_netdebug.debugger.place import CODE, END, START, Place
from tb_netdebug.debugger.protocol.arguments import ArgumentError
from tb_netdebug.debugger.protocol.messages import PROTOCOL, FrameError, decoded
from tb_netdebug.debugger.protocol.statements import LearningRateJson, StateJson, place_json
from tb_netdebug.debugger.protocol.verbs import VERBS, checked
from tb_netdebug.debugger.trainer.breakpoints import Breakpoints
from tb_netdebug.debugger.trainer.course import Reason, RunTarget
from tb_netdebug.debugger.trainer.demand import needs_of
from tb_netdebug.debugger.trainer.inbox import Inbox
from tb_netdebug.debugger.trainer.inspection import Inspection
from tb_netdebug.debugger.trainer.lease import LEASE_SECS, Lease
from tb_netdebug.debugger.trainer.pace import Pace
from tb_netdebug.debugger.trainer.pause import CurrentPause
from tb_netdebug.debugger.trainer.sender import MessageSender
from tb_netdebug.debugger.trainer.stack import line_of
from tb_netdebug.debugger.trainer.steering import Steering
from tb_netdebug.debugger.trainer.watchpoints import Watchpoints
from tb_netdebug.debugger.workbench import NOTHING, Needs, Workbench, WorkbenchError

# While it runs, its state is sent at this interval; a step that was asked for is reported at once.
TELL_SECS = 0.2
LOOK_SECS = 1.0
# For calls at one place; after that, the lease is checked, and a run that is not paused goes on.
MOST_WORK_SECS = 0.5
CLOSE_SECS = 10.0
# The hub accepts lists of a thousand.
MOST_RATES, MOST_OBSTACLES = 500, 100

# For nd.breakpoint(), which gets no session.
open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """A session; it implements `workbench.Stops`.

    `send` takes frames and returns whether it sent them. `notice` takes sentences for the terminal. `resumed`
    gets how long the run was held up. `snapshot` writes a capsule. `fault` gets errors of the debugger, and
    what it was doing: they never reach the training.
    """

    def __init__(
        self, about: Mapping[str, Any], *, send: Callable[[bytes], bool], step_of: Callable[[], int],
        notice: Callable[[str], None], resumed: Callable[[float], None],
        snapshot: Callable[[], Any] | None = None, fault: Callable[[str, Exception], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.is_alert = False
        self.about = dict(about)
        self.lease = Lease(clock)
        self.breakpoints = Breakpoints()
        self.watchpoints = Watchpoints()
        self.course: RunTarget | None = None
        self.place: Place | None = None
        self.frame: FrameType | None = None
        self.note: str | None = None
        self.snapshot = snapshot
        self.step_of = step_of
        self._sender = MessageSender(send, notice, clock)
        self._notice = notice
        self._fault = fault or self._say_fault
        self._resumed = resumed
        self._clock = clock
        self._pid = os.getpid()
        self._bench: Workbench | None = None
        self._inbox = Inbox()
        self._visiting = threading.Lock()
        self._visitor: int | None = None
        self._stay: CurrentPause | None = None  # while it is paused
        self._went_on: str | None = None  # why it went on by itself
        self._is_released = False
        self._was_attached = self._was_told_attached = False
        self._is_over = False
        self._number = 0
        self._loss: float | None = None
        self._rates: list[LearningRateJson] = []
        self._version = 0
        self._told_at = -1.0
        self._pace = Pace(clock())
        self._needs = self._watch_needs = NOTHING
        self._is_unsettled = True
        self._inspection = Inspection(self)
        self._verbs = {**self._inspection.verbs, **Steering(self).verbs}

    # ---- called by the run -------------------------------------------------------------------------------

    def open(self, bench: Workbench) -> None:
        """Attach the workbench; called before the first batch."""
        self._bench = bench
        self.about |= {"can": list(bench.can), "cannot": list(bench.cannot)[:MOST_OBSTACLES]}
        self._look_at_rates()
        open_sessions.add(self)

    @property
    def bench(self) -> Workbench:
        if self._bench is None:
            raise WorkbenchError("The training has not started yet.")
        return self._bench

    def visit(self, place: Place) -> None:
        """Stop here if asked to; return when the run may go on.

        Visits from within the debugger's own work are ignored.
        """
        self._enter(place, None, sys._getframe(1))

    def hold(self, place: Place, reason: Reason) -> None:
        """Pause here and wait for any client, for a while."""
        self.lease.await_first()
        self._enter(place, reason, sys._getframe(1))

    def begin(self) -> None:
        """Pause before the first batch, until a client comes."""
        self._notice(
            "the training waits before its first batch. Open the Debugger tab of NetDebug in TensorBoard, or "
            "run `netdebug debug`; Ctrl-C ends it."
        )
        self.hold(Place(START), Reason("start", "it was started with a pause"))

    def end_batch(self) -> None:
        """End the batch, when everything of it is known; called only if `is_alert`."""
        self.visit(Place(END))
        if self._bench is not None and self._needs != NOTHING:
            self._bench.end_batch()
        self._number = 0
        if not self.is_attached and not self._inbox:
            self._let_go()

    def keep_user(self, name: str, value: Any) -> None:
        """Keep what the program has given to `monitor.tensor`."""
        if self.is_alert and self._bench is not None:
            self._bench.keep_user(name, value)

    def close(self) -> None:
        """Close the session, from any thread; if the run is paused, it resumes first."""
        open_sessions.discard(self)
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        self.is_alert = False
        self._rouse()
        # A visit on another thread has to leave before the workbench is closed.
        is_elsewhere = self._visitor != threading.get_ident() and self._visiting.acquire(timeout=CLOSE_SECS)
        try:
            self._end()
        finally:
            if is_elsewhere:
                self._visiting.release()

    def _end(self) -> None:
        sentence = "The run is over."
        self._sender.refuse(sentence)
        while self._inbox:
            self._sender.fail(self._inbox.take()["id"], "gone", sentence)
        self._sender.tell("bye")
        if self._bench is not None:
            self._bench.close()

    # ---- called by the channel ---------------------------------------------------------------------------

    def connected(self) -> None:
        """Greet a new connection, whose other end knows nothing of this session."""
        version = self._version
        self._sender.tell("hello", protocol=PROTOCOL, session=self.about, state=self.state())
        if version != self._version:  # changed meanwhile, and that state reached nobody
            self._sender.tell("state", state=self.state())

    def receive(self, data: bytes) -> None:
        """Take a frame from the channel's thread; malformed frames are dropped."""
        try:
            frame = decoded(data)
        except FrameError:
            return
        if frame.type == "lease":
            self.lease.take(frame.head)
        elif frame.type == "call" and isinstance(frame.head.get("id"), int):
            if not self._is_over and self._inbox.put(frame.head):
                self.lease.is_refused = False
            else:
                self._sender.fail(
                    frame.head["id"], "busy", "The run is busy answering other requests. Try again."
                )
        self._rouse()

    def _rouse(self) -> None:
        if not self._is_over:
            self.is_alert = True
        self._inbox.rouse()

    # ---- a visit -----------------------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        return self.lease.is_attended

    @property
    def is_paused(self) -> bool:
        return self._stay is not None

    def _enter(self, place: Place, reason: Reason | None, frame: FrameType) -> None:
        thread = threading.get_ident()
        # Neither from within the debugger's own work, nor in a forked child.
        if self._visitor == thread or self._is_over or self._bench is None or os.getpid() != self._pid:
            return
        with self._visiting:
            self._visitor = thread
            try:
                self._arrive(place, reason, frame)
            except Exception as error:
                self._fault("stopping the training", error)
            finally:
                self._visitor = None

    def _arrive(self, place: Place, reason: Reason | None, frame: FrameType) -> None:
        self._number += 1
        self.place, self.frame = place, frame
        try:
            self._work()
            # After the calls, which may have asked for a stop at this very place.
            reason = reason or self._reason_at(place)
            if reason is not None:
                self._pause(reason)
            self._sender.settle(self.state)
            if place.phase == END:
                self._look_around()
            if self._is_unsettled or self.watchpoints.needs is not self._watch_needs:
                self.adjust()
        finally:
            self.frame = None

    def _reason_at(self, place: Place) -> Reason | None:
        if place.phase == CODE:
            return Reason("code", "the program called nd.breakpoint()") if self.is_attached else None
        found = self._found_at(place) if self.is_attached else None
        if self.course is not None:
            # Asked even if a breakpoint stops the run here, because it counts the places passed.
            arrived = self.course.arrives(place, self.step_of())
            found = found or arrived
        return found

    def _found_at(self, place: Place) -> Reason | None:
        step = self.step_of()
        hits = self.watchpoints.check(place, step, self.bench)
        if hits:
            return Reason("watchpoint", hits[0].sentence, hits[0].watchpoint)
        met = self.breakpoints.hit(place, step)
        if met is not None:
            return Reason("breakpoint", f"of breakpoint {met.id}", met.id)
        return None

    def _pause(self, reason: Reason) -> None:
        timeout = self.about.get("collective_timeout_secs")
        self._stay = stay = CurrentPause(reason, self._clock(), time.time(), timeout)
        try:
            self._stand()
            self._wait(stay)
        finally:
            self._stay = None
            self._is_unsettled = True
            self._resumed(self._clock() - stay.began)
            self.tell_state()

    def _stand(self) -> None:
        """Enter the pause: fill in the user's line, and report where and why the run has stopped."""
        assert self.place is not None
        assert self.frame is not None
        file, line, function = line_of(self.frame)
        self.place = replace(self.place, number=self._number, file=file, line=line, function=function)
        self.course, self._is_released = None, False
        # The note on why it last went on by itself is out of date now.
        if self.note == self._went_on:
            self.note = None
        self._look_at_rates()
        self._loss = self.bench.scalars().get("loss", self._loss)
        self.adjust()
        self.tell_state()
        self._sender.settle(self.state, at_once=True)

    def _wait(self, stay: CurrentPause) -> None:
        while not self._is_released and not self._is_over:
            self._work()
            if self._is_released:
                return
            if self.is_attached and not self._was_told_attached:
                self.tell_state()
            why = stay.why_it_ends(self.lease, is_attached=self.is_attached, now=self._clock())
            if why:
                self.note = self._went_on = why
                self._notice(why)
                return
            self._inbox.wait(LOOK_SECS)  # `_rouse` wakes it; a lease runs out silently

    # ---- calls -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Serve the calls that have come so far: a hub that keeps asking does not hold up the run."""
        until = self._clock() + MOST_WORK_SECS
        for _ in range(len(self._inbox)):
            self._is_unsettled = True
            self._serve(self._inbox.take())
            if self._clock() > until:
                return

    def _serve(self, head: Mapping[str, Any]) -> None:
        number, verb = head["id"], head.get("verb")
        try:
            arguments = head.get("arguments")
            asked = checked(str(verb), arguments if isinstance(arguments, dict) else {})
            answer = self._verbs[str(verb)](**asked)
        except (WorkbenchError, ArgumentError) as error:
            self._sender.fail(number, getattr(error, "kind", "refused"), str(error))
        except Exception as error:  # our own fault, and no reason to disturb the run
            sentence = f"NetDebug failed to answer: {type(error).__name__}: {error}"
            self._sender.fail(number, "failed", sentence)
        else:
            if VERBS[str(verb)].waits and not (self.is_paused and not self._is_released):
                self._sender.owe(number, asked["wait"])
            else:
                self._sender.answer(number, answer)

    # ---- called by the verbs -----------------------------------------------------------------------------

    def release(self, course: RunTarget | None) -> None:
        """Resume, up to the target if there is one."""
        self.course, self._is_released, self.note = course, True, None
        self._is_unsettled = True

    def detach(self) -> None:
        self.lease.is_refused = True
        self.release(None)

    def adjust(self) -> None:
        """Tell the workbench what is needed from now on; does nothing on a closed session."""
        if self._is_over:
            return
        self._is_unsettled, self._watch_needs = False, self.watchpoints.needs
        self._was_attached = self.is_attached
        needs = self._wanted() if self._was_attached or self.course is not None else NOTHING
        if needs != self._needs:
            self._needs = needs
            self.bench.need(needs)

    def _wanted(self) -> Needs:
        return needs_of(
            self.course, self.breakpoints, self.watchpoints,
            is_paused=self.is_paused, is_slow=self._pace.is_slow, followed=self._inspection.followed,
        )  # fmt: skip

    def refresh_rates(self) -> list[LearningRateJson]:
        self._look_at_rates()
        self.tell_state()
        return self._rates

    def _look_at_rates(self) -> None:
        rates = self.bench.learning_rates()[:MOST_RATES]
        self._rates = cast("list[LearningRateJson]", rates)

    def _let_go(self) -> None:
        """Drop all needs, so that the session costs nothing again: no client attends."""
        self.is_alert = False
        self._sender.settle(self.state, at_once=True)
        self.adjust()
        if self._inbox or self.lease.holds:  # a call came meanwhile
            self.is_alert = True

    # ---- the state ---------------------------------------------------------------------------------------

    def state(self) -> StateJson:
        place, stay = self.place, None if self._is_released else self._stay
        return {
            "version": self._version,
            "status": "over" if self._is_over else "running" if stay is None else "paused",
            "is_attached": self.is_attached,
            "step": self.step_of(),
            "place": None if place is None else place_json(place),
            "reason": None if stay is None else stay.reason.as_dict(),
            "paused_at": None if stay is None else stay.paused_at,
            "lease_secs": self.lease.secs or LEASE_SECS,
            "resumes_at": None if stay is None else stay.resumes_at,
            "is_waiting": self.course is not None,
            "loss": self._loss,
            "hits": self.watchpoints.count,
            "breakpoints": self.breakpoints.as_list(),
            "watchpoints": self.watchpoints.as_list(),
            "learning_rates": self._rates,
            "note": self.note,
        }

    def tell_state(self) -> None:
        self._version += 1
        self._told_at = self._clock()
        self._was_told_attached = self.is_attached
        self._sender.tell("state", state=self.state())

    def _look_around(self) -> None:
        """Check between two batches who attends, and whether the state is due."""
        is_attached = self.is_attached
        if not is_attached:
            self.course = None  # the target of a client that has left
        self._is_unsettled |= is_attached != self._was_attached or self._pace.end_batch(self._clock())
        is_due = is_attached and self._clock() - self._told_at >= TELL_SECS
        if is_due or is_attached != self._was_told_attached:
            self._loss = self.bench.scalars().get("loss", self._loss)
            self.tell_state()

    def _say_fault(self, doing: str, error: Exception) -> None:
        self._notice(f"the debugger failed while {doing}: {type(error).__name__}: {error}.")


def pause_in_code() -> None:
    """Implement `nd.breakpoint()`: pause if a client attends a run of this process, else do nothing."""
    for session in list(open_sessions):
        if session.is_alert and session.is_attached:
            session._enter(Place(CODE), None, sys._getframe(1))
            return
