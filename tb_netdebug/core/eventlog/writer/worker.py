"""The writer's thread: sleeps until there is work, packs, writes, and tries again after a failure."""

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

_BLOCK_BYTES = 1 << 20
_FIRST_RETRY_SECS = 0.25
_LAST_RETRY_SECS = 5.0


class RecordObserver(Protocol):
    """Looks at all records before they are written, in their order. What it returns is stored as the run's
    findings; it is called on the writer's thread and may raise what it likes."""

    def judge(self, records: Sequence[StepRecord]) -> bytes | None: ...

    def finish(self) -> bytes | None:
        """After the last one."""


class _Call(Enum):
    WORK = "there is something to write, in time"
    CUT = "there is enough for a block, write it now"


@dataclass(frozen=True, slots=True)
class _Order:
    """A caller that waits; `reply` gets whether everything is on the disk."""

    reply: SimpleQueue[bool]
    is_last: bool


class Worker:
    """All methods that are not private may be called from any thread, and from a signal handler in them.

    That is why there are queues where locks and events would be usual: a handler that interrupts `put` of a
    SimpleQueue may call it again, whereas the lock of an Event would never be released.
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
        """Something was put into the backlog. Whether this started the thread."""
        if self._thread is None:
            return self._start()
        if self._is_idle:
            self._is_idle = False
            self._mail.put(_Call.WORK)
        elif self._backlog.held_bytes >= self._cut_at_bytes:
            self._cut_at_bytes = float("inf")
            self._mail.put(_Call.CUT)
        return False

    def nudge(self) -> None:
        """The log is due for a new part although nothing new was put."""
        self._mail.put(_Call.WORK)

    def ask(self, *, is_last: bool, timeout_secs: float) -> bool:
        """Have everything written now; with `is_last` the thread ends. Whether all is on the disk."""
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
            except RuntimeError as error:  # no threads left, or the interpreter is about to end
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
        """Sleep until there is work, then a little longer so that more of it comes together."""
        wait_until = self._work_since + self._flush_secs
        if self.error is not None:
            wait_until = time.monotonic() + self._retry_secs
        elif not self._backlog.waiting:
            self._is_idle = True
            if not self._backlog.waiting:  # looked at again, for who put before seeing the flag
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
        except Exception as error:  # of our own making, so this batch would never succeed
            self._backlog.count_dropped(self._batch)
            self._packed, self._batch = None, Batch([], 0)
            self._fail(error)
        self._cut_at_bytes = self._backlog.held_bytes + _BLOCK_BYTES
        self.cost_secs = time.thread_time()

    def _write_block(self) -> None:
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
            self._packed = Packed(self._packer.end_part(), 0, 0)  # kept, as a block is, until it is written
            self._log.write(self._packed.values)
            self._packed = None
            self._log.close()

    def _judged(self, batch: Batch | None) -> list[StepRecord | Extra]:
        """The findings after this batch, or after the last one, when there is something new to say."""
        if self._judge is None:
            return []
        try:
            if batch is None:
                found = self._judge.finish()
            else:
                found = self._judge.judge([item for item in batch.items if isinstance(item, StepRecord)])
        except Exception as error:  # what the checks get wrong must not cost the records
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
        """Whoever asked while the thread was ending."""
        while not self._mail.empty():
            self._receive(self._mail.get())
        for order in self._orders:
            order.reply.put(self.error is None)

    def _finish(self) -> None:
        """Write what only the end of the run completes; give up what the disk does not take."""
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
