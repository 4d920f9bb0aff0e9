"""The TensorBoards that run on this machine.

Each leaves a file for `tensorboard.manager` and for notebooks.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from tb_netdebug.transport.discovery import own_bytes

USUAL_PORT = 6006


@dataclass(frozen=True, slots=True)
class RunningTensorBoard:
    """A TensorBoard of this user, as its info file describes it."""

    port: int
    prefix: str
    logdir: str

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}{self.prefix}"


def running() -> list[RunningTensorBoard]:
    """Return the live TensorBoards of this user.

    The folder is world-writable, so files of other users are ignored.
    """
    folder = Path(tempfile.gettempdir()) / ".tensorboard-info"
    try:
        paths = sorted(folder.glob("pid-*.info"))
    except OSError:
        return []
    contents = (own_bytes(path) for path in paths)
    return [found for data in contents if data is not None and (found := _parsed(data)) is not None]


def _parsed(data: bytes) -> RunningTensorBoard | None:
    """Return the TensorBoard of an info file, or None if its process has ended without removing the file."""
    try:
        told = json.loads(data)
        process = psutil.Process(int(told["pid"]))
        # TensorBoard writes its start time in whole seconds. A process created later has only inherited the
        # pid.
        if process.create_time() > float(told["start_time"]) + 1 or process.uids().real != os.getuid():
            return None
        prefix = str(told["path_prefix"]).rstrip("/")
        return RunningTensorBoard(int(told["port"]), prefix, str(told["logdir"]))
    except (ValueError, TypeError, KeyError, RecursionError, psutil.Error):
        return None
