"""The thread on which the processes of a run communicate, in the steps that all of them have sampled.

Ordinary steps cost one comparison. After each agreed step, every process proposes the step that it could
sample next; the latest proposal becomes the next agreed step. Samples of sharded tensors travel with the
proposals, and the first process merges them. All processes communicate in the same order, whatever their runs
do. A process that skipped the step or dropped its samples says so, and the step is not merged. Only this
thread ever waits.
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
from tb_netdebug.frameworks.torch.ranks.meeting import FAN, AbandonedError, RankMeeting, roll_call
from tb_netdebug.frameworks.torch.ranks.rank_messages import RankMessage, merged, squares, without_bins
from tb_netdebug.recording.agreement import Agreement

# Samples of at most so many steps wait for the others. After that, each process keeps its own part.
MOST_HELD = 64
# A step that is never reached: it stands for the end.
NEVER = 1 << 60
# How long to wait for the others to appear: one may take much longer to load its model.
MEETING_SECS = 120.0
# How long `finish` waits for the others, which should be about to finish as well: when samples are to be
# merged, when only the end is to be announced, and when the program fails or nobody has appeared yet.
CLOSING_SECS, GOODBYE_SECS, LEAVING_SECS = 5.0, 1.0, 0.5
# Above this number of processes, the others no longer send their steps to the first one.
MOST_RANKS_TOLD = 64

Late = tuple[int, dict[str, float], list[Sample]]


@dataclass(slots=True)
class PendingSamples:
    """Samples of a step that wait for the others: `parts` are sent, `samples` are held back meanwhile."""

    parts: dict[Series, bytes]
    samples: list[Sample]
    squares: float = 0.0


class Exchange:
    """Exchanges samples with the other processes. Only the run's thread calls its public methods."""

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

    # ---- on the run's thread

    def offer(self, step: int, held: PendingSamples) -> bool:
        """Offer samples of a step. Return whether those held back will come by `take`.

        Called before `passed` for the same step.
        """
        with self._lock:
            agreed = self._agreement.step
            if self._is_over or (agreed is not None and step < agreed):
                return False
            self._held[step] = held
            if len(self._held) > MOST_HELD:
                self._release(min(self._held))
            return True

    def passed(self, step: int) -> None:
        """Note that the run has passed this step."""
        self._passed = step
        if step >= self._target:
            self._bell.put(None)

    def take(self) -> list[Late]:
        """Return what was decided since the last call: merged samples, or this process's own as they were."""
        with self._lock:
            results, self._results = self._results, []
            return results

    @property
    def oldest(self) -> int:
        """The first step whose samples are still to come; NEVER if there is none."""
        with self._lock:
            return min((step for step, held in self._held.items() if held.samples), default=NEVER)

    def finish(self) -> None:
        """Settle what is held, with the others if they come in time, else alone. The run is over."""
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

    # ---- on this class's own thread

    def _run(self) -> None:
        try:
            self._attend()
        except AbandonedError:
            if not self._is_closing:
                self.complaint = "the other processes watch a different model"
        except Exception as error:  # torch raises many kinds when others are gone or unreachable
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.complaint = f"the processes cannot communicate ({reason[:200]})"
        finally:
            self._end()

    def _attend(self) -> None:
        """Wait for all processes, connect, and exchange until the end."""
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
        """Run the exchange, one agreed step after the other."""
        agreement = self._agreement
        step, _ = meeting.exchange(self._proposal(-1), None, merged)
        while step < NEVER:
            self._agree(step)
            self._wait_for(step)
            before, agreement.step = self._passed, None
            # None while the processes talk: the next agreed step is not known yet.
            following, whole = meeting.exchange(self._proposal(step), self._letter(step), merged)
            self._settle(step, whole)
            # The run went on while the processes talked. The next proposal leaves twice that many steps, so
            # that the run has not passed the step when it is agreed on.
            self._lead = 2 + 2 * (self._passed - before)
            agreement.cost_secs = time.thread_time()
            step = following
        self.complaint = "another process has ended its recording"

    def _agree(self, step: int) -> None:
        """Make this the agreed step, and release the samples of earlier ones."""
        with self._lock:
            self._target = step
            self._agreement.step = step
            self._agreement.is_made = True
            for earlier in [each for each in self._held if each < step]:
                self._release(earlier)

    def _wait_for(self, step: int) -> None:
        """Wait until the run has passed the step, or will not pass it any more."""
        while self._passed < step and not self._is_closing:
            try:
                self._bell.get(timeout=1.0)
            except Empty:
                continue

    def _proposal(self, step: int) -> int:
        """Return the first later step that this process could sample, or has sampled already."""
        with self._lock:
            held = min((each for each in self._held if each > step), default=None)
        if held is not None:
            return held
        if self._is_closing:
            return NEVER
        wanted, is_sure = self._agreement.wanted()
        return max(wanted if is_sure else max(wanted, self._passed + self._lead), step + 1)

    def _letter(self, step: int) -> bytes | None:
        """Return the letter for this step; None if its samples were dropped or never taken."""
        with self._lock:
            held = self._held.get(step)
        if held is None:
            return None
        letter = RankMessage(held.parts)
        if self._rank and self._size <= MOST_RANKS_TOLD:
            letter.told[self._rank] = without_bins(self._news())
        return letter.pack()

    def _news(self) -> list[Any]:
        told = self._agreement.told
        return [told.popleft() for _ in range(len(told))]

    def _settle(self, step: int, whole: bytes | None) -> None:
        """Replace the first process's own part by the merged samples; without these, keep the own part."""
        if whole is None:
            with self._lock:
                self._release(step)
            return
        letter = RankMessage.unpack(whole)
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
        """Let this process keep its own part of the step."""
        held = self._held.pop(step, None)
        # Other processes than the first have recorded their own part already.
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
