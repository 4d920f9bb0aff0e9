"""An S3 server of this machine's own, in a process that can be killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import fsspec
import pytest

BUCKET = "logs"
# Nobody checks them, but the client wants some; and it must not look for others on this machine.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
}
PATIENCE_SECS = 60.0


class S3Server:
    """`kill` takes it away at once; `start` brings it back on the same port, with the objects that it had, as
    a store with disks of its own would."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._objects: dict[str, bytes] = {}

    @property
    def environment(self) -> Mapping[str, str]:
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.url}

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **CREDENTIALS},
        )
        deadline = time.monotonic() + PATIENCE_SECS
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            assert self._process.poll() is None
            time.sleep(0.05)
        self.files.mkdir(BUCKET)
        for path, data in self._objects.items():
            self.files.pipe_file(path, data)

    def kill(self) -> None:
        if self._process is not None:
            self._objects = self.objects()
            self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def files(self) -> Any:
        files = fsspec.filesystem("s3")
        files.invalidate_cache()
        return files

    def objects(self) -> dict[str, bytes]:
        """All that it holds."""
        return {path: self.files.cat_file(path) for path in self.files.find(BUCKET)}


def use(server: S3Server, patch: pytest.MonkeyPatch) -> None:
    """All of this process that speaks of `s3://` means this server."""
    fsspec.filesystem("s3", skip_instance_cache=True).clear_instance_cache()
    for name, value in server.environment.items():
        patch.setenv(name, value)
    patch.delenv("AWS_PROFILE", raising=False)
