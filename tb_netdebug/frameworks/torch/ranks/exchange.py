"""The thread on which the processes of a training talk, in the steps that all of them have sampled.

Ordinary steps cost a comparison. After each step that was agreed on, every process says which step it could
sample next, and the latest of these is the next one; with it travel the samples of what lies in parts, which
the first process puts together. All talk in the same order, whatever their trainings do: one that skipped
the step, or has dropped its samples, says so, and the step is not merged. Nobody but this thread ever waits.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from tb_netdebug.core.records.scalar_names import RANKS_GRADIENT_NORM, RANKS_MERGED
from tb_netdebug.core.records.step import Sample, Series
from tb_netdebug.frameworks.torch.ranks.letters import Letter, merged, squares, without_bins
from tb_netdebug.frameworks.torch.ranks.meeting import FAN, AbandonedError, RankMeeting, roll_call
from tb_netdebug.recording.agreement import Agreement

# Samples wait for the others in at most so many steps; then each process keeps its own part.
MOST_HELD = 64
# A step that nobody reaches: the end.
NEVER = 1 << 60
# Until here the others may come: one may load its model much longer than this one does.
MEETING_SECS = 120.0
# How long `finish` waits for the others, who should be about to finish as well: when there are samples to be
# merged, when there is only a last word to be said, and when the program fails or nobody has come yet.
CLOSING_SECS, GOODBYE_SECS, LEAVING_SECS = 5.0, 1.0, 0.5
# The first process is told of the steps of at most so many others.
MOST_RANKS_TOLD = 64

Late = tuple[int, dict[str, float], list[Sample]]


@dataclass(slots=True)
class PendingSamples:
    """Samples of a step that wait for the others: `parts` are given away, `samples` are kept back here."""

    parts: dict[Series, bytes]
    samples: list[Sample]
    squares: float = 0.0


class Exchange:
    """`offer`, `passed`, `take` and `finish` belong to the training's thread."""

    def __init__(
        self, store: Any, name: str, rank: int, size: int, agreement: Agreement, *, fan: int = FAN
    ) -> None:
        self.complaint = ""
        self._store, self._name, self._rank, self._size = store, name, rank, size
        self._fan = fan
        self._agreement = agreement
        self._lock = threading.RLock()
        self._held: dict[int, PendingSamples] = {}
        self._results: list[Late] = []
        self._passed = -1
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._target = NEVER
        self._lead = 2
        self._meet_until = self._leave_at = float("inf")
        self._has_met = False
        self._is_closing = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="netdebug-ranks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # ---- on the training's thread

    def offer(self, step: int, held: PendingSamples) -> bool:
        """Samples of a step, before `passed` is told. Whether those kept back come by `take`."""
        with self._lock:
            agreed = self._agreement.step
            if self._is_over or (agreed is not None and step < agreed):
                return False
            self._held[step] = held
            if len(self._held) > MOST_HELD:
                self._release(min(self._held))
            return True

    def passed(self, step: int) -> None:
        self._passed = step
        if step >= self._target:
            self._bell.put(None)

    def take(self) -> list[Late]:
        """What has been decided since: merged samples, or those of this process as they were."""
        with self._lock:
            results, self._results = self._results, []
            return results

    @property
    def oldest(self) -> int:
        """The first step whose samples are still to come; NEVER without one."""
        with self._lock:
            return min((step for step, held in self._held.items() if held.samples), default=NEVER)

    def finish(self) -> None:
        """The training is over: what is held is settled with the others if they come, else alone."""
        with self._lock:
            is_owed = any(held.parts for held in self._held.values())
        patience = LEAVING_SECS if sys.exc_info()[0] is not None or not self._has_met else GOODBYE_SECS
        if is_owed and sys.exc_info()[0] is None:
            patience = CLOSING_SECS
        self._leave_at = time.monotonic() + patience
        self._is_closing = True
        self._bell.put(None)
        while self._thread.is_alive() and time.monotonic() < self._leave_at + 1.0:
            self._thread.join(timeout=0.1)
        self._end()

    # ---- on the thread

    def _run(self) -> None:
        try:
            self._attend()
        except AbandonedError:
            if not self._is_closing:
                self.complaint = "the other processes do not watch the same model"
        except Exception as error:  # whatever torch raises: the others are gone, or cannot be reached
            self.complaint = f"the processes cannot talk to each other ({str(error).splitlines()[0][:200]})"
        finally:
            self._end()

    def _attend(self) -> None:
        self._meet_until = time.monotonic() + MEETING_SECS
        roll_call(self._store, self._name, self._size, self._is_wanted)
        self._meet_until = float("inf")
        self._has_met = True
        if self._is_closing:
            self._leave_at = max(self._leave_at, time.monotonic() + CLOSING_SECS)
        where = self._store, self._name, self._rank, self._size
        meeting = RankMeeting.of(*where, self._is_wanted, fan=self._fan)
        try:
            self._talk(meeting)
        except BaseException:
            meeting.leave_behind()
            raise

    def _talk(self, meeting: RankMeeting) -> None:
        agreement = self._agreement
        step, _ = meeting.exchange(self._proposal(-1), None, merged)
        while step < NEVER:
            self._agree(step)
            self._wait_for(step)
            before, agreement.step = self._passed, None
            following, whole = meeting.exchange(self._proposal(step), self._letter(step), merged)
            self._settle(step, whole)
            self._lead = 2 + 2 * (self._passed - before)
            agreement.cost_secs = time.thread_time()
            step = following
        self.complaint = "another process has ended its recording"

    def _agree(self, step: int) -> None:
        with self._lock:
            self._target = step
            self._agreement.step = step
            self._agreement.is_made = True
            for earlier in [each for each in self._held if each < step]:
                self._release(earlier)

    def _wait_for(self, step: int) -> None:
        """Until the training has passed it, or will not any more."""
        while self._passed < step and not self._is_closing:
            try:
                self._bell.get(timeout=1.0)
            except Empty:
                continue

    def _proposal(self, step: int) -> int:
        """The first step after this one that this process could sample, or has sampled already."""
        with self._lock:
            held = min((each for each in self._held if each > step), default=None)
        if held is not None:
            return held
        if self._is_closing:
            return NEVER
        wanted, is_sure = self._agreement.wanted()
        return max(wanted if is_sure else max(wanted, self._passed + self._lead), step + 1)

    def _letter(self, step: int) -> bytes | None:
        with self._lock:
            held = self._held.get(step)
        if held is None:
            return None
        letter = Letter(held.parts)
        if self._rank and self._size <= MOST_RANKS_TOLD:
            letter.told[self._rank] = without_bins(self._news())
        return letter.pack()

    def _news(self) -> list[Any]:
        told = self._agreement.told
        return [told.popleft() for _ in range(len(told))]

    def _settle(self, step: int, whole: bytes | None) -> None:
        """In the first process the merged samples take the place of its own part."""
        if whole is None:
            with self._lock:
                self._release(step)
            return
        letter = Letter.unpack(whole)
        if self._agreement.heard is not None:
            for rank, records in letter.told.items():
                self._agreement.heard(rank, records)
        with self._lock:
            held = self._held.pop(step, None)
            if held is None or not letter.parts:
                return
            scalars = {RANKS_MERGED: float(self._size)}
            norm = (squares(letter.parts) + held.squares) ** 0.5
            if norm:
                scalars[RANKS_GRADIENT_NORM] = norm
            samples = [Sample(series, summary) for series, summary in letter.parts.items()]
            self._results.append((step, scalars, samples))

    def _release(self, step: int) -> None:
        """Each process keeps its own part of this step."""
        held = self._held.pop(step, None)
        if held is not None and held.samples:
            self._results.append((step, {}, held.samples))

    def _is_wanted(self) -> bool:
        return time.monotonic() < min(self._meet_until, self._leave_at)

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            self._target = NEVER
            self._agreement.is_made = False
            self._agreement.step = NEVER
            for step in sorted(self._held):
                self._release(step)
