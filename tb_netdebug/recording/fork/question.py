"""Run a function in a forked copy of this process, where its side effects stay.

The copy has one thread, no descriptor but the one for its answer, and read-only shared memory; a seccomp
filter refuses it everything else. It is killed when its time is up. It sends no signal when it ends, and only
we can wait for it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tb_netdebug.core.machine.free_memory import free_bytes, own_bytes
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.fork.system_calls import filter_of_this_machine
from tb_netdebug.recording.fork.waking import awakes

try:
    from tb_netdebug.recording.fork import _fork
except ImportError:  # no compiler was there
    CAN_CONFINE = False
else:
    CAN_CONFINE = _fork.CAN_CONFINE

# An answer is written in one call, so it has to fit into a pipe whose reader is busy.
MOST_BYTES = 60_000
# Memory for the pages that either side writes while the copy lives.
ROOM_BYTES = 512 << 20
LOWEST_PRIORITY = 19
# Attempts, because a copy may hang on a lock that another thread held at the fork.
MOST_TRIES = 6
# __WALL: the copy sends no signal when it ends, and waitid skips such children by default.
OF_ANY_KIND = 0x40000000

Answer = dict[str, Any]


def why_not() -> str:
    """Return why nothing can be run in a copy on this machine now, as part of a sentence; "" if it can."""
    if not CAN_CONFINE:
        return "repeating it in a copy of the process needs Linux and a compiled NetDebug"
    if free_bytes() < ROOM_BYTES + own_bytes() // 2:
        return "there is not enough free memory to repeat it in a copy of the process"
    return ""


class Question:
    """Starts the copy when created. `answer` waits a little, and may be called again; `close` gives up.

    Once a wait has ended without an answer, the copy runs at the lowest priority.
    """

    def __init__(self, ask: Callable[[], Answer], *, most_secs: float) -> None:
        self._ends = now() + most_secs
        self._result: Answer | None = None
        self.why_not = ""
        numbers = random.getstate()  # Python reseeds `random` in every child
        for _ in range(MOST_TRIES):
            self._fork(ask, numbers)
            if awakes(self._pid, self._reader, until=self._ends):
                return
            # The copy hangs on a lock: kill it, and try again.
            self._let_go()
        self.why_not = "other threads held locks that repeating it in a copy of the process needs"

    def _fork(self, ask: Callable[[], Answer], numbers: Any) -> None:
        self._reader, writer = os.pipe()
        try:
            pid, self._child = _fork.fork_confined(writer, filter_of_this_machine())
        except OSError:
            os.close(self._reader)
            os.close(writer)
            raise
        self._pid = pid
        if pid == 0:
            run_in_child(ask, self._child, numbers)
        os.close(writer)

    @property
    def is_over(self) -> bool:
        return self._child < 0

    def answer(self, wait_secs: float = 0.0) -> Answer | None:
        """Return the answer; None while there is none, and `why_not` says if there will be none."""
        if self.is_over:
            return self._result
        left = max(self._ends - now(), 0.0)
        poll = select.poll()  # unlike select(), it takes descriptors of any number
        poll.register(self._reader, select.POLLIN)
        if poll.poll(min(wait_secs, left) * 1000):
            self._read()
        elif now() >= self._ends:
            self._end("repeating it took too long")
        else:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._pid, LOWEST_PRIORITY)
        return self._result

    def close(self) -> None:
        """Give up. Harmless when called again."""
        if not self.is_over:
            self._end("the run ended first")

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            answer = json.loads(os.read(self._reader, MOST_BYTES) or b"null")
            if isinstance(answer, dict):
                self._result = answer
        if self._result is None:
            self._end("repeating it in a copy of the process failed")
        else:
            self._end(str(self._result.pop("failure", "")))

    def _end(self, why_not: str) -> None:
        self.why_not = why_not
        if why_not:
            self._result = None
        self._let_go()

    def _let_go(self) -> None:
        child, self._child = self._child, -1
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, child, os.WEXITED | OF_ANY_KIND)
        for descriptor in (child, self._reader):
            os.close(descriptor)


def run_in_child(ask: Callable[[], Answer], writer: int, numbers: Any) -> None:
    """Run the function and exit: the program's `finally` blocks and `atexit` handlers must not run here."""
    try:
        answer = answer_in_child(ask, numbers)
        with suppress(OSError, ValueError, TypeError):
            # An answer that is too long is cut, cannot be parsed, and counts as a failure.
            os.write(writer, json.dumps(answer, default=str).encode()[:MOST_BYTES])
    finally:
        os._exit(0)


def answer_in_child(ask: Callable[[], Answer], numbers: Any) -> Answer:
    try:
        gc.disable()  # no finalizers of the program's objects may run here
        # Trace functions belong to the program, whose code must not run in the copy either.
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        random.setstate(numbers)
        return ask()
    except BaseException as error:
        lines = str(error).splitlines() or ["no reason given"]
        return {"failure": f"{type(error).__name__}: {lines[0][:200]}"}
