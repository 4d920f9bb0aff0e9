"""The writer's thread: it sleeps until there is work, packs it, writes it, and retries after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Protocol

from tb_netdebug.core.eventlog.writer.backlog import Backlog, Batch, Extra, PendingPayload
from tb_netdebug.core.eventlog.writer.packing import Packed, Packer
from tb_netdebug.core.eventlog.writer.run_log import RunLog
from tb_netdebug.core.records.step import StepRecord

# How much of the backlog goes into one block. When this much waits, it is written without waiting any longer.
_BLOCK_BYTES = 1 << 20
_FIRST_RETRY_SECS = 0.25
_LAST_RETRY_SECS = 5.0


class RecordObserver(Protocol):
    """An observer of all records, in order, before they are written; `judging/online.py` implements it.

    What it returns is stored as the run's findings. It is called on the writer's thread. If it raises, the
    error is reported, it is not called again, and the records are written all the same.
    """

    def judge(self, records: Sequence[StepRecord]) -> bytes | None: ...

    def finish(self) -> bytes | None:
        """Return the findings after the last record, or None if there is nothing new."""


class _Call(Enum):
    WORK = "there is something to write, in time"
    CUT = "there is enough for a block, write it now"


@dataclass(frozen=True, slots=True)
class _Order:
    """A request of a waiting caller; `reply` receives whether everything is on the disk."""

    reply: SimpleQueue[bool]
    is_last: bool


class Worker:
    """The writer's thread. Its public methods may be called from any thread, and from a signal handler there.

    That is why it uses queues where locks and events would be usual: a signal handler that interrupts `put`
    of a SimpleQueue may call `put` again, whereas it would wait for the lock of an Event for ever.
    """

    def __init__(
        self,
        backlog: Backlog,
        packer: Packer,
        log: RunLog,
        *,
        flush_secs: float,
        report: Callable[[Exception], None],
        judge: RecordObserver | None = None,
    ) -> None:
        self.cost_secs = 0.0
        self.failures = 0
        self.written_steps = 0
        self.written_samples = 0
        self.error: Exception | None = None
        self._backlog = backlog
        self._packer = packer
        self._log = log
        self._flush_secs = flush_secs
        self._report = report
        self._judge = judge
        # Reentrant, because a signal handler may interrupt `_start` and call it again on the same thread.
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._mail: SimpleQueue[_Call | _Order] = SimpleQueue()
        self._orders: list[_Order] = []
        self._is_idle = False
        self._is_over = False
        self._cut_at_bytes: float = _BLOCK_BYTES
        self._retry_secs = 0.0
        self._work_since = 0.0
        self._batch = Batch([], 0)
        self._packed: Packed | None = None

    def wake(self) -> bool:
        """Announce something new in the backlog; return whether this started the thread."""
        if self._thread is None:
            return self._start()
        if self._is_idle:
            self._is_idle = False
            self._mail.put(_Call.WORK)
        elif self._backlog.held_bytes >= self._cut_at_bytes:
            # One call is enough: the thread sets a new limit when it has worked.
            self._cut_at_bytes = float("inf")
            self._mail.put(_Call.CUT)
        return False

    def nudge(self) -> None:
        """Wake the thread because the log is due for a new part, although nothing was put."""
        self._mail.put(_Call.WORK)

    def ask(self, *, is_last: bool, timeout_secs: float) -> bool:
        """Have everything written now; return whether it is on the disk. `is_last` also ends the thread."""
        if self._thread is None:
            return not self._backlog.waiting
        order = _Order(SimpleQueue(), is_last)
        self._mail.put(order)
        if self._is_over:  # it may have ended before it saw the order
            return self.error is None
        try:
            return order.reply.get(timeout=timeout_secs)
        except Empty:
            return False

    def _start(self) -> bool:
        with self._starting:
            if self._thread is not None:
                return False
            self._thread = threading.Thread(target=self._run, name="netdebug-writer", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # the system's limit of threads, or the interpreter is ending
                self._is_over = True
                self._fail(error)
                return False
            return True

    # On the thread

    def _run(self) -> None:
        self._work_since = time.monotonic()
        while not self._is_over:
            self._wait()
            self._work()
            self._answer()
        self._answer_late_ones()

    def _wait(self) -> None:
        """Sleep until there is work, then a little longer to collect more of it."""
        wait_until = self._work_since + self._flush_secs
        if self.error is not None:
            wait_until = time.monotonic() + self._retry_secs
        elif not self._backlog.waiting:
            self._is_idle = True
            if not self._backlog.waiting:  # checked again: a put may have come before the flag
                self._receive(self._mail.get())
            self._is_idle = False
            wait_until = time.monotonic() + self._flush_secs
        while not self._orders:
            try:
                call = self._mail.get(timeout=max(0.0, wait_until - time.monotonic()))
            except Empty:
                return
            self._receive(call)
            if call is _Call.CUT and self.error is None:
                return

    def _receive(self, call: _Call | _Order) -> None:
        if isinstance(call, _Order):
            self._orders.append(call)

    def _work(self) -> None:
        self._work_since = time.monotonic()
        try:
            while self._packed is not None or self._backlog.waiting:
                self._write_block()
                self._end_part()
            self._end_part()
            self.error = None
            self._retry_secs = 0.0
        except OSError as error:
            self._fail(error)
        except Exception as error:  # a bug of ours: this batch would never succeed
            self._backlog.count_dropped(self._batch)
            self._packed, self._batch = None, Batch([], 0)
            self._fail(error)
        # After a failure the backlog is not empty, so the limit counts from what it holds now.
        self._cut_at_bytes = self._backlog.held_bytes + _BLOCK_BYTES
        self.cost_secs = time.thread_time()

    def _write_block(self) -> None:
        # After a failure the batch is still packed, and the log knows how much of it the file has taken.
        if self._packed is None:
            self._batch = self._backlog.take(_BLOCK_BYTES)
            self._batch.items.extend(self._judged(self._batch))
            self._packed = self._pack(self._batch)
        self._log.write(self._packed.values)
        self.written_steps += self._packed.steps
        self.written_samples += self._packed.samples
        self._backlog.release(self._batch.size)
        self._packed, self._batch = None, Batch([], 0)

    def _end_part(self) -> None:
        if self._log.is_due:
            self._packed = Packed(self._packer.end_part(), 0, 0)  # kept for a retry, like a block
            self._log.write(self._packed.values)
            self._packed = None
            self._log.close()

    def _judged(self, batch: Batch | None) -> list[StepRecord | Extra]:
        """Return the findings after this batch if they changed; for None, those at the end of the run."""
        if self._judge is None:
            return []
        try:
            if batch is None:
                found = self._judge.finish()
            else:
                found = self._judge.judge([item for item in batch.items if isinstance(item, StepRecord)])
        except Exception as error:  # a bug in the checks must not cost the records
            self._judge = None
            self.failures += 1
            self._report(error)
            return []
        return [] if found is None else [Extra(PendingPayload("findings", found, time.time(), keep=False), 0)]

    def _pack(self, batch: Batch) -> Packed:
        packed = self._packer.pack(batch.items, dropped=self._backlog.dropped, log=self._log)
        for error in self._packer.take_errors():
            self.failures += 1
            self._report(error)
        return packed

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        self.error = error
        self._retry_secs = min(_LAST_RETRY_SECS, max(_FIRST_RETRY_SECS, 2 * self._retry_secs))
        self._report(error)

    def _answer(self) -> None:
        orders, self._orders = self._orders, []
        if any(order.is_last for order in orders):
            self._finish()
        for order in orders:
            order.reply.put(self.error is None)

    def _answer_late_ones(self) -> None:
        """Answer callers whose requests arrived while the thread was ending."""
        while not self._mail.empty():
            self._receive(self._mail.get())
        for order in self._orders:
            order.reply.put(self.error is None)

    def _finish(self) -> None:
        """Write what only the end of the run completes, and give up what the disk does not take."""
        try:
            if self.error is None:
                self._log.write(self._pack(Batch(self._judged(None), 0)).values)
                self._log.write(self._packer.rest(dropped=self._backlog.dropped))
        except Exception as error:
            self._fail(error)
        self._log.close()
        if self.error is not None:
            self._backlog.give_up(self._batch)
        self.cost_secs = time.thread_time()
        self._is_over = True
