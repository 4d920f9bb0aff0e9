"""Which TensorBoards run on this machine: each leaves a file for `tensorboard.manager` and notebooks."""

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
    contents = (own_bytes(path) for path in paths)
    return [found for data in contents if data is not None and (found := _parsed(data)) is not None]


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
