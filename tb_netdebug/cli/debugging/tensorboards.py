"""Which TensorBoards run on this machine: each leaves a file for `tensorboard.manager` and notebooks."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

USUAL_PORT = 6006
MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RunningTensorBoard:
    port: int
    prefix: str
    logdir: str

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}{self.prefix}"


def running() -> list[RunningTensorBoard]:
    """Those of this user that live. The folder is open to all: what others leave there is not believed."""
    folder = Path(tempfile.gettempdir()) / ".tensorboard-info"
    try:
        paths = sorted(folder.glob("pid-*.info"))
    except OSError:
        return []
    return [found for path in paths if (found := _read(path)) is not None]


def _read(path: Path) -> RunningTensorBoard | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            return None
        return _parsed(file.read(MOST_BYTES))


def _parsed(data: bytes) -> RunningTensorBoard | None:
    """None also for one that has ended without taking its file away."""
    try:
        told = json.loads(data)
        process = psutil.Process(int(told["pid"]))
        if process.create_time() > float(told["start_time"]) + 1 or process.uids().real != os.getuid():
            return None
        prefix = str(told["path_prefix"]).rstrip("/")
        return RunningTensorBoard(int(told["port"]), prefix, str(told["logdir"]))
    except (ValueError, TypeError, KeyError, RecursionError, psutil.Error):
        return None
