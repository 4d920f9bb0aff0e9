"""A TensorBoard in a process of its own, with NetDebug in it as it is installed."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from bench.without_tensorflow import PREAMBLE

OURS = "/data/plugin/netdebug/"
HEADERS = {"X-NetDebug": "1"}  # which pages of other web sites cannot send
MAIN = "\nfrom tensorboard.main import run_main\nrun_main()\n"
READY = re.compile(r"TensorBoard \S+ at http://\S+?:(\d+)/ ")
START_SECS = 120.0
REPLY_SECS = 120.0


class BoardError(RuntimeError):
    """TensorBoard did not start, does not know NetDebug, or answered with an error."""


class Board:
    """Ready when made, on a free port of 127.0.0.1. `preamble` is Python that runs before TensorBoard.

    `start_secs` is the time from the start of the process until it lists its plugins, which are `plugins`.
    """

    def __init__(self, logdir: Path, *, preamble: str = "") -> None:
        self._ready = threading.Event()
        self._lines: list[str] = []
        # Not in the checkout, which would go before the installed package.
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PREAMBLE + preamble + MAIN,
                "--logdir",
                str(logdir),
                "--host",
                "127.0.0.1",
                "--port",
                "0",
            ],
            cwd=self._folder.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for us, and we end it
        )
        self._reader = threading.Thread(target=self._read_log, name="log of TensorBoard", daemon=True)
        self._reader.start()
        try:
            self.port = self._wait_for_port()
            self.plugins: dict[str, Any] = json.loads(self.get("/data/plugins_listing"))
            self.start_secs = time.perf_counter() - began
        except BaseException:
            self.close()
            raise

    def need_netdebug(self) -> Board:
        """Raises BoardError unless our tab is there."""
        if "netdebug" not in self.plugins:
            raise BoardError("TensorBoard does not know NetDebug: install it first, as `make bench` does")
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def resident(self) -> int:
        """Bytes of memory of TensorBoard's own process; its data server is another one."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def resident_of_helpers(self) -> int:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return sum(child.memory_info().rss for child in children)

    def collector(self) -> str:
        """Where it takes the records of trainings elsewhere. Raises BoardError when it does not."""
        until = time.monotonic() + START_SECS
        while time.monotonic() < until:
            told = json.loads(self.get("runs"))["collector"]
            if told["address"] or told["trouble"]:
                break
            time.sleep(0.1)
        if not told["address"]:
            raise BoardError(told["trouble"] or "TensorBoard has not started its collector")
        return str(told["address"])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=REPLY_SECS)

    def get(self, path: str, **query: str) -> bytes:
        """The body; `path` is one of our routes, or begins with a slash. Raises BoardError for an error."""
        connection = self.connect()
        try:
            connection.request("GET", full_path(path, query), headers=HEADERS)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise BoardError(f"{path} was answered with {response.status}: {body[:300]!r}")
        return body

    def columns(self, *queries: dict[str, Any]) -> list[dict[str, Any]]:
        """The heads of the answers. Raises BoardError when one of them is an error."""
        body = self.get("columns", q=json.dumps(queries))
        size = int.from_bytes(body[:4], "little")
        answers: list[dict[str, Any]] = json.loads(body[4 : 4 + size])["answers"]
        failed = [answer["error"] for answer in answers if "error" in answer]
        if failed:
            raise BoardError(f"a query was not answered: {failed[0]}")
        return answers

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self._folder.cleanup()

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_port(self) -> int:
        self._ready.wait(START_SECS)
        found = READY.search("".join(self._lines))
        if found is None:
            raise BoardError("TensorBoard did not start: " + "".join(self._lines[-5:]))
        return int(found[1])

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as log:
            for line in log:
                self._lines.append(line)
                if READY.search(line):
                    self._ready.set()
        self._ready.set()  # it has ended, and there is nothing to wait for
        self._ready.set()


def full_path(path: str, query: dict[str, str]) -> str:
    place = path if path.startswith("/") else OURS + path
    return f"{place}?{urllib.parse.urlencode(query)}" if query else place
