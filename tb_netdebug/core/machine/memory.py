"""Samples the memory of this process, its children, the host and the GPUs in a thread of its own."""

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

# A reading that takes 5 ms of the processor comes every 5 s at most.
COST_SHARE = 0.001

# Short trainings are over before a few seconds are: readings come every tenth of the time so far.
EARLY_SHARE = 0.1

# Closing waits for a reading that is under way, but not for a driver that hangs.
CLOSE_SECS = 1.0


class MemorySource:
    """Something to read now and then: every so many seconds, and rarer the more it costs."""

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
        """New readings, or none when it is not time yet or the reading failed."""
        if self._clock() < self._due:
            return {}
        before = self._processor_clock()
        try:
            readings, self.problem = self._read(), ""
        except Exception as error:  # a thread of ours must not print a traceback into someone's training
            readings, self.problem = {}, f"{type(error).__name__}: {error}"
        self._postpone(self._processor_clock() - before)
        return readings

    def _postpone(self, cost_secs: float) -> None:
        # The first reading loads libraries and any may be unlucky: only what is dear twice is dear.
        believed_secs = min(cost_secs, self._last_cost_secs)
        self._last_cost_secs = cost_secs
        self._due = self._clock() + max(self._every_secs, believed_secs / COST_SHARE)


class Mailbox:
    """Hands readings from one thread to another; neither ever waits, and nothing is lost.

    One dictionary at most lies in the queue, and each side takes it by one atomic operation.
    """

    def __init__(self) -> None:
        self._queue: deque[Readings] = deque()

    def put(self, readings: Readings) -> None:
        """Adds to what was not taken yet; of one name the newest counts."""
        self._queue.append({**self.take(), **readings})

    def take(self) -> Readings:
        """All that was put since the last time."""
        if not self._queue:
            return {}
        try:
            return self._queue.popleft()
        except IndexError:  # the other side has just taken it
            return {}


class MemorySampler:
    """A thread that reads memory every `interval_secs`; `latest()` hands over what is new.

    In the first seconds readings follow each other faster, from `early_secs` on. Slow readings (PSS, USS)
    come every `detail_secs`, and all but the cheapest come rarer where they cost more than a thousandth of a
    core. The thread holds no lock that a caller could wait for. In a forked child the sampler is inert.
    """

    def __init__(
        self, interval_secs: float = 1.0, *, detail_secs: float = 10.0, early_secs: float = 0.1
    ) -> None:
        self.cost_secs = 0.0  # processor time that the thread took so far
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
        """Starts the thread, once: a closed sampler stays closed."""
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
        """What was read since the last call, in bytes, the newest of each name; empty when nothing was.

        Cheap enough for every step; the dictionary is the caller's.
        """
        return self._mailbox.take()

    def wait_for_first(self, timeout_secs: float) -> bool:
        """Waits until the first readings are there; false when it took longer."""
        return self._first.wait(timeout_secs)

    def describe(self) -> str:
        """One sentence on what is recorded and what is not, and why."""
        if self._refusal:
            return f"Memory is not recorded: no thread could be started ({self._refusal})."
        broken = [source for source in self._sources if source.problem]
        failed = [f"{source.name} could not be read ({source.problem})" for source in broken]
        return "; ".join([self._describe_devices(), *failed]) + "."

    def close(self) -> None:
        """Ends the thread. What `latest` has not handed over yet stays there."""
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
        return "Host memory is recorded; GPUs were not looked for yet"

    def _forget(self) -> None:
        # In a forked child: the thread is not there, and its locks may have been held at the fork.
        self._thread = None
        self._mailbox = Mailbox()
        self._first = threading.Event()
        self._stop = threading.Event()
        self._stop.set()


def forget_in_children(sampler: MemorySampler) -> None:
    """Makes the copies of `sampler` in forked children inert."""
    reference = weakref.ref(sampler)

    def after_fork() -> None:
        copy = reference()
        if copy is not None:
            copy._forget()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=after_fork)
