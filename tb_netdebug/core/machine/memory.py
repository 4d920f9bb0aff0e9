"""The memory sampler: a thread that reads memory of this process, its children, the host and the GPUs.

`training/monitor.py` owns it and takes its readings at every step.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from tb_netdebug.core.machine.host_memory import HostMemory
from tb_netdebug.core.machine.nvml import Nvml

Readings = dict[str, float]

# The share of a core that a source may cost: a reading of 5 ms of processor time comes at most every 5 s.
COST_SHARE = 0.001

# A short run is over within seconds, so at first readings come every tenth of the time so far.
EARLY_SHARE = 0.1

# Closing waits for a reading in progress, but not for a driver that hangs.
CLOSE_SECS = 1.0


class MemorySource:
    """A source of readings with an interval, which grows with the cost of a reading."""

    def __init__(
        self,
        name: str,
        read: Callable[[], Readings],
        *,
        every_secs: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        processor_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.name = name
        self.problem = ""  # why the last reading failed
        self._read = read
        self._clock = clock
        self._processor_clock = processor_clock
        self._every_secs = every_secs
        self._last_cost_secs = 0.0
        self._due = float("-inf")

    def read_if_due(self) -> Readings:
        """Return new readings, or none if it is not due yet or the reading failed."""
        if self._clock() < self._due:
            return {}
        before = self._processor_clock()
        try:
            readings, self.problem = self._read(), ""
        except Exception as error:  # our thread must not print a traceback into the training's output
            readings, self.problem = {}, f"{type(error).__name__}: {error}"
        self._postpone(self._processor_clock() - before)
        return readings

    def _postpone(self, cost_secs: float) -> None:
        # The first reading loads libraries and any may be slow by chance, so the lower of two costs counts.
        believed_secs = min(cost_secs, self._last_cost_secs)
        self._last_cost_secs = cost_secs
        self._due = self._clock() + max(self._every_secs, believed_secs / COST_SHARE)


class Mailbox:
    """A lock-free hand-over of readings from one thread to another: neither side waits, nothing is lost.

    The queue holds at most one dictionary, and either side takes it with one atomic operation.
    """

    def __init__(self) -> None:
        self._queue: deque[Readings] = deque()

    def put(self, readings: Readings) -> None:
        """Add readings to those not taken yet; the newest of each name counts."""
        self._queue.append({**self.take(), **readings})

    def take(self) -> Readings:
        """Return everything put since the last call."""
        if not self._queue:
            return {}
        try:
            return self._queue.popleft()
        except IndexError:  # the other side has just taken it
            return {}


class MemorySampler:
    """A thread that reads memory every `interval_secs`; `latest()` returns what is new.

    In the first seconds readings come faster, starting with `early_secs`. Slow ones (PSS, USS) come every
    `detail_secs`, and any source that would cost more than a thousandth of a core is read less often. The
    thread holds no lock that a caller could wait for. In a forked child the sampler is inert.
    """

    def __init__(
        self, interval_secs: float = 1.0, *, detail_secs: float = 10.0, early_secs: float = 0.1
    ) -> None:
        self.cost_secs = 0.0  # processor time of the thread so far
        self._interval_secs = interval_secs
        self._early_secs = early_secs
        self._host = HostMemory()
        self._nvml = Nvml()
        self._sources = [
            MemorySource("memory of this process", self._host.process),
            MemorySource("memory of its children", self._host.children),
            MemorySource("PSS and USS", self._host.details, every_secs=detail_secs),
            MemorySource("memory of GPUs", self._read_gpus),
        ]
        self._mailbox = Mailbox()
        self._first = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._refusal = ""  # why there is no thread

    def start(self) -> None:
        """Start the thread, once; a closed sampler stays closed."""
        if self._thread is not None or self._stop.is_set():
            return
        self._thread = threading.Thread(target=self._run, name="netdebug-memory", daemon=True)
        forget_in_children(self)
        # A daemon thread inside the driver while the interpreter is torn down could crash it.
        atexit.register(self.close)
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads for this user, or the interpreter is ending
            self._thread, self._refusal = None, str(error)

    def latest(self) -> Readings:
        """Return the newest reading of each name since the last call, in bytes; empty if there is none.

        Cheap enough for every step. The caller owns the dictionary.
        """
        return self._mailbox.take()

    def wait_for_first(self, timeout_secs: float) -> bool:
        """Wait for the first readings; return False if they take longer than the timeout."""
        return self._first.wait(timeout_secs)

    def describe(self) -> str:
        """Return a sentence on what is recorded, and what is not and why."""
        if self._refusal:
            return f"Memory is not recorded: no thread could be started ({self._refusal})."
        broken = [source for source in self._sources if source.problem]
        failed = [f"{source.name} could not be read ({source.problem})" for source in broken]
        return "; ".join([self._describe_devices(), *failed]) + "."

    def close(self) -> None:
        """End the thread; readings not yet returned by `latest` stay available."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self.close)
        if thread is not threading.current_thread():
            thread.join(CLOSE_SECS)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.is_set():
            self._mailbox.put(self._read_due())
            self.cost_secs = time.thread_time()
            self._first.set()
            so_far = max(self._early_secs, EARLY_SHARE * (time.monotonic() - began))
            self._stop.wait(min(self._interval_secs, so_far))
        self._nvml.close()

    def _read_due(self) -> Readings:
        readings: Readings = {}
        for source in self._sources:
            readings.update(source.read_if_due())
        return readings

    def _read_gpus(self) -> Readings:
        return self._nvml.read(pid=os.getpid(), children=self._host.child_pids)

    def _describe_devices(self) -> str:
        devices, reason = self._nvml.devices(), self._nvml.reason
        if devices:
            names = ", ".join(f"GPU {device.index} ({device.name})" for device in devices)
            return f"Host memory and {names} are recorded" + (f"; {reason}" if reason else "")
        if reason:
            return f"Only host memory is recorded: {reason}"
        return "Host memory is recorded; GPUs were not searched for yet"

    def _forget(self) -> None:
        # A forked child lacks the thread, and the locks may have been held at the moment of the fork.
        self._thread = None
        self._mailbox = Mailbox()
        self._first = threading.Event()
        self._stop = threading.Event()
        self._stop.set()


def forget_in_children(sampler: MemorySampler) -> None:
    """Make the copies of `sampler` in forked children inert."""
    reference = weakref.ref(sampler)

    def after_fork() -> None:
        copy = reference()
        if copy is not None:
            copy._forget()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=after_fork)
