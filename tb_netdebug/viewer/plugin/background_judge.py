"""Judges long runs in the background for `verdicts.py`, one at a time, each in a low-priority process."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tb_netdebug.transport.agent_connection import environment

logger = logging.getLogger(__name__)

# Python also imports from its working directory, and a logdir is untrusted.
ROOT = "/"

Report = dict[str, Any]
# Called when a run was judged, with its folder, its version, the report (None if it failed) and the time it
# took.
Done = Callable[[str, int, Report | None, float], None]


class BackgroundJudge:
    """Queues runs to be judged. Safe from any thread.

    Its own thread lives as long as runs are waiting; `done` is called on it.
    """

    def __init__(self, done: Done) -> None:
        self._done = done
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, int] = OrderedDict()
        self._judged = ""  # the folder of the run that is being judged
        self._process: subprocess.Popen[bytes] | None = None
        self._is_working = self._is_closed = False

    def want(self, folder: str, version: int) -> None:
        """Queue the run in this folder, unless it is being judged already.

        A run that is waiting stays where it is, with the new version.
        """
        with self._lock:
            if self._is_closed or folder == self._judged:
                return
            self._waiting[folder] = version
            if not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="netdebug-judge", daemon=True).start()

    def close(self) -> None:
        """Kill the process that judges, and drop the queue."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            if self._process is not None:
                self._process.kill()

    def _work(self) -> None:
        while (order := self._next()) is not None:
            folder, version = order
            began = time.monotonic()
            report = self._report(folder)
            if not self._is_closed:
                self._done(folder, version, report, time.monotonic() - began)

    def _next(self) -> tuple[str, int] | None:
        with self._lock:
            self._judged = ""
            if not self._waiting:
                self._is_working = False
                return None
            # Newest request first: somebody is looking at that run now.
            folder, version = self._waiting.popitem(last=True)
            self._judged = folder
            return folder, version

    def _report(self, folder: str) -> Report | None:
        try:
            process = self._start(folder)
            if process is None:
                return None
            out, said = process.communicate()
            if process.returncode == 0:
                report: Report = json.loads(out)
                return report
            if not self._is_closed:
                logger.warning(
                    "NetDebug could not judge %r: %s", folder, said[-2000:].decode(errors="replace")
                )
        except (OSError, ValueError) as error:
            logger.warning("NetDebug could not judge %r: %s", folder, error)
        return None

    def _start(self, folder: str) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-m", "tb_netdebug.judging.one_run", str(Path(folder).absolute())]
        with self._lock:
            if self._is_closed:
                return None
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                # Since Python 3.11 this keeps the working directory off sys.path; on 3.10 ROOT has to do.
                env={**environment(), "PYTHONSAFEPATH": "1"},
            )
            return self._process
