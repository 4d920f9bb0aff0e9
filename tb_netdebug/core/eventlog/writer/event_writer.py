"""The writer: it takes records from the training thread and writes them to disk on a thread of its own."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from tb_netdebug.core.eventlog.writer import exit_handlers, png
from tb_netdebug.core.eventlog.writer.backlog import Backlog, Extra, PendingPayload, Picture
from tb_netdebug.core.eventlog.writer.located_warnings import UserLine
from tb_netdebug.core.eventlog.writer.mirror import MirrorOptions
from tb_netdebug.core.eventlog.writer.packing import Packer
from tb_netdebug.core.eventlog.writer.run_log import RunLog
from tb_netdebug.core.eventlog.writer.shipping import Shipper
from tb_netdebug.core.eventlog.writer.spool import spool_of
from tb_netdebug.core.eventlog.writer.store_trouble import left_over
from tb_netdebug.core.eventlog.writer.worker import RecordObserver, Worker
from tb_netdebug.core.records.step import StepRecord

_DEFAULT_MIRROR = MirrorOptions()
_HOW_TO_SILENCE = (
    "(To silence this: warnings.simplefilter('ignore', tb_netdebug.core.eventlog.writer.WriterWarning).)"
)


class WriterError(RuntimeError):
    """Raised under `strict=True` when records could not be written."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What became of the records so far; `failures` counts every failed attempt, retries included."""

    written_steps: int
    written_samples: int
    written_bytes: int
    dropped_steps: int
    dropped_samples: int
    dropped_bytes: int
    failures: int
    files: int


class EventWriter:
    """The event writer of one process: records reach an event file in `run_dir` within 250 ms.

    `put` takes microseconds, never waits and never raises. When the disk cannot keep up, up to `queue_bytes`
    wait in memory; beyond that the newest samples are dropped, then whole steps, all counted. When writing
    fails, there is one warning, at the user's line that created the writer, and the writer retries until it
    succeeds. With `strict` the next `put` or `close` raises WriterError instead. In a forked child every
    method does nothing.

    The thread starts with the first record and creates the file. Ranks other than 0 write into the run's side
    folder, without the mirror for TensorBoard's own dashboards. In a folder that `spool` has made for an
    object store there are many files, and another thread uploads them.
    """

    def __init__(
        self,
        run_dir: Path | str,
        *,
        rank: int = 0,
        queue_bytes: int = 64 << 20,
        flush_secs: float = 0.2,
        mirror: MirrorOptions | None = _DEFAULT_MIRROR,
        strict: bool = False,
        judge: RecordObserver | None = None,
    ) -> None:
        self._backlog = Backlog(queue_bytes)
        self._packer = Packer(rank=rank, mirror=mirror if rank == 0 else None)
        folder = Path(run_dir).absolute()  # whatever folder the program changes to
        self._spool = spool_of(folder)
        self._log = RunLog(folder, rank=rank, in_parts=self._spool is not None)
        self._worker = Worker(
            self._backlog,
            self._packer,
            self._log,
            flush_secs=flush_secs,
            report=self._on_failure,
            judge=judge,
        )
        self._shipper: Shipper | None = None
        if self._spool is not None:
            self._shipper = Shipper(self._spool, self._log, nudge=self._worker.nudge, say=self._warn)
        self._strict = strict
        self._user_line = UserLine.current()
        self._pid = os.getpid()
        self._is_closed = False
        self._has_warned = False
        self._failure: Exception | None = None

    def put(self, record: StepRecord) -> None:
        """Queue a record, which must not be changed afterwards."""
        if not self._is_open():
            return
        self._raise_failure()
        self._backlog.put(record)
        self._wake()

    def image(self, name: str, array: ArrayLike, *, step: int, wall_time: float | None = None) -> None:
        """Write an ordinary image summary; raise ValueError if the array is no image (see `png.pixels`)."""
        if self._is_open():
            # A copy, because the caller may reuse the array before the writer's thread encodes it.
            pixels = png.pixels(array).copy()
            taken_at = time.time() if wall_time is None else wall_time
            self._put_extra(Extra(Picture(name, step, taken_at, pixels), pixels.nbytes))

    def graph(self, data: bytes) -> None:
        """Write the encoded graph of the model, repeated at the start of later files of this run."""
        self.payload("graph", data, keep=True)

    def run_info(self, data: bytes) -> None:
        """Write the encoded description of the run, repeated at the start of later files of this run."""
        self.payload("run", data, keep=True)

    def payload(self, name: str, data: bytes, *, keep: bool = False) -> None:
        """Write bytes under the tag `netdebug/<name>`; `keep` repeats them at the start of later files."""
        if self._is_open():
            self._put_extra(Extra(PendingPayload(name, data, time.time(), keep), len(data)))

    def flush(self, *, timeout_secs: float = 10.0) -> bool:
        """Wait until everything put so far is in the file; return whether it is."""
        return self._is_open() and self._worker.ask(is_last=False, timeout_secs=timeout_secs)

    def close(self, *, timeout_secs: float = 10.0) -> None:
        """Write what is left and end; what the disk does not take is dropped with a warning."""
        if not self._is_open():
            return
        # Before the wait, during which a signal handler may close the writer again.
        self._is_closed = True
        exit_handlers.forget(self)
        if self._worker.ask(is_last=True, timeout_secs=timeout_secs):
            self._ship_rest(timeout_secs)
            return
        self._raise_failure()
        self._warn(
            f"NetDebug was closed before all records were written to {self._log.run_dir}: "
            f"{self._worker.error or 'the disk did not answer in time'}. The last records are lost."
        )

    @property
    def path(self) -> Path | None:
        """The event file, or None before there is one."""
        return self._log.path

    @property
    def cost_secs(self) -> float:
        """The CPU time of the writer's threads so far."""
        return self._worker.cost_secs + (self._shipper.cost_secs if self._shipper is not None else 0.0)

    @property
    def counters(self) -> Counters:
        lost, refused = self._backlog.dropped, self._packer.dropped
        return Counters(
            written_steps=self._worker.written_steps,
            written_samples=self._worker.written_samples,
            written_bytes=self._log.written_bytes,
            dropped_steps=lost.steps + refused.steps,
            dropped_samples=lost.samples + refused.samples,
            dropped_bytes=lost.bytes + refused.bytes,
            failures=self._worker.failures,
            files=self._log.files,
        )

    def _is_open(self) -> bool:
        return not self._is_closed and self._pid == os.getpid()

    def _put_extra(self, extra: Extra) -> None:
        self._backlog.put_extra(extra)
        self._wake()

    def _wake(self) -> None:
        if self._worker.wake():
            exit_handlers.watch(self)
            if self._shipper is not None:
                self._shipper.start()

    def _ship_rest(self, timeout_secs: float) -> None:
        if self._shipper is not None and self._spool is not None:
            left = self._shipper.finish(timeout_secs=timeout_secs)
            if left:
                self._has_warned = False  # the final message is due even after an earlier warning
                self._warn(left_over(len(left), self._spool))

    def _on_failure(self, error: Exception) -> None:
        """Warn about a failure or, under `strict`, keep it for the next call. Runs on the writer's thread."""
        if self._strict:
            self._failure = error
        elif isinstance(error, OSError):
            room = f"{self._backlog.limit_bytes >> 20} MiB"
            self._warn(
                f"NetDebug cannot write to {self._log.run_dir}: {error}. The training goes on. Records wait "
                f"in memory, up to {room}; beyond that, the newest are dropped and counted. Writing "
                "continues as soon as it works again. Free some space there, or pass another logdir. "
                f"{_HOW_TO_SILENCE}"
            )
        else:
            self._warn(
                f"NetDebug could not record something: {type(error).__name__}: {error}. The training goes "
                f"on; missing records are counted. {_HOW_TO_SILENCE}"
            )

    def _warn(self, message: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._user_line.warn(message)

    def _raise_failure(self) -> None:
        """Raise a failure once, if there is one, which only `strict` keeps."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise WriterError(f"Records cannot be written to {self._log.run_dir}: {failure}") from failure
