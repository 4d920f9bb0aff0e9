"""The trainer's way to the agent: connects to its socket, and starts the agent when that fails.

Nothing here imports gRPC.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tb_netdebug.transport.agent_paths import AgentPaths
from tb_netdebug.transport.file_lock import taken
from tb_netdebug.transport.local_wire import is_own

# An agent starts within half a second; on a machine that is busy with training, it takes much longer.
START_SECS = 30.0
MOST_LOG_BYTES = 1 << 20
# Something may kill it while it starts; after three times that is taken as intended.
MOST_FAILURES = 3
FILES = ("NETDEBUG_TOKEN_FILE", "NETDEBUG_TLS_CA")
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class AgentConnection:
    """Connects one thread to the agent of a collector, and starts the agent if need be.

    `complaint` says why the agent could not be started, once that has failed.
    """

    def __init__(self, meeting: AgentPaths) -> None:
        self.complaint = ""
        self._meeting = meeting
        self._lock = -1
        self._starting: subprocess.Popen[bytes] | None = None
        self._give_up_at = 0.0
        self._failures = 0
        self._log_size = 0

    def knock(self) -> socket.socket | None:
        """Return a connection to the agent, or None."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(1.0)
            connection.connect(str(self._meeting.socket))
            if is_own(connection):
                connection.setblocking(False)
                self._end_start()
                self._failures = 0
                return connection
        except OSError:
            pass  # no agent listens, or it accepts nothing at the moment
        connection.close()
        return None

    def call(self) -> None:
        """Start the agent, unless another trainer is doing that already; `knock` again a moment later.

        Raise OSError when the agent cannot be started.
        """
        if self._starting is not None:
            self._look_after_start()
        elif self._take_lock():
            self._give_up_at = time.monotonic() + START_SECS
            try:
                self._starting = self._start()
            except OSError:
                self._end_start()
                raise

    def close(self) -> None:
        self._end_start()

    def forget(self) -> None:
        """Drop the lock in a forked child: it belongs to the parent."""
        if self._lock >= 0:
            with suppress(OSError):
                os.close(self._lock)
        self._lock, self._starting = -1, None

    # ---- the start ---------------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        log = os.open(self._meeting.log, flags, 0o600)
        try:
            if os.fstat(log).st_size > MOST_LOG_BYTES:
                os.ftruncate(log, 0)
            self._log_size = os.fstat(log).st_size
            return subprocess.Popen(
                [sys.executable, "-m", "tb_netdebug.transport.agent", self._meeting.target],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._meeting.socket.parent,  # python -m looks for modules in cwd: here are none
                env=environment(),
                # A session of its own, so that Ctrl-C in the trainer's terminal does not end it.
                start_new_session=True,
            )
        finally:
            os.close(log)

    def _look_after_start(self) -> None:
        assert self._starting is not None
        code = self._starting.poll()
        if code:
            self._failures += 1
            reason = self._last_line()
            if reason or self._failures >= MOST_FAILURES:
                self.complaint = f"its helper process could not be started: {reason or 'it was killed'}"
        elif code is None and time.monotonic() > self._give_up_at:
            self._starting.kill()
            self._starting.wait()
            self.complaint = f"its helper process did not start within {START_SECS:.0f} s"
        elif code is None:
            return
        # The start is over: it failed, or the agent is ready, or (code 0, too) another one has the lock.
        self._end_start()

    def _end_start(self) -> None:
        if self._starting is not None:
            with suppress(subprocess.TimeoutExpired):
                self._starting.wait(timeout=0.2)  # it exits once the agent is ready: reap it
            self._starting = None
        if self._lock >= 0:
            lock, self._lock = self._lock, -1
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child forked meanwhile has the descriptor, too
            os.close(lock)

    def _take_lock(self) -> bool:
        lock = taken(self._meeting.starting)
        self._lock = -1 if lock is None else lock
        return lock is not None

    def _last_line(self) -> str:
        """Return the last line of the log since this start; empty when the process was killed."""
        try:
            said = self._meeting.log.read_bytes()[self._log_size :].decode(errors="replace")
        except OSError:
            said = ""
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
        return last and f"{last[:200]} (see {self._meeting.log})"


def environment() -> dict[str, str]:
    """Return the environment for the agent: the trainer's, with its credentials and network settings.

    Paths are made absolute, and PYTHONPATH finds our package wherever the trainer found it.
    """
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    places = {str(Path(entry).absolute()): place for place, entry in reversed(list(enumerate(sys.path)))}
    # In the trainer's own order: the package may lie in a folder together with many others.
    paths = sorted(
        [str(_PACKAGE_ROOT), *(str(Path(entry).absolute()) for entry in given)],
        key=lambda path: places.get(path, len(places)),
    )
    files = {name: os.environ[name] for name in FILES if os.environ.get(name)}
    return {
        **os.environ,
        **{name: str(Path(path).expanduser().absolute()) for name, path in files.items()},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OPENBLAS_NUM_THREADS": "1",  # NumPy is imported but computes nothing
        "PYTHONUNBUFFERED": "1",
        "GRPC_VERBOSITY": os.environ.get("GRPC_VERBOSITY", "NONE"),  # the log is the agent's
    }
