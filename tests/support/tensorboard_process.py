"""A real TensorBoard in a process of its own, for tests of what it serves.

    with TensorBoard("--logdir", str(logdir)) as board:
        board.json("runs")                      # a route of ours
        board.get("/data/plugins_listing")      # any other path, below the path prefix
        board.page                              # where a browser goes to see our tab

It starts as if there were no TensorFlow, whose import takes seconds, and keeps what it leaves for trainers of
this user in a folder of its own.

Tests run on the installed wheel, which brings our entry point along. In a checkout without one, a description
of the package with that entry point is put on the path of the child.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
ENTRY_POINT = "netdebug = tb_netdebug.viewer.plugin.loader:NetDebugLoader"
OURS = "/data/plugin/netdebug/"
PROGRAM = {"X-NetDebug": "1"}  # what a page of another site cannot send
START_SECS = 60
REPLY_SECS = 30
# As TensorBoard itself is told to do without.
WITHOUT_TENSORFLOW = (
    "import sys, types\nsys.modules['tensorflow'] = None\n"
    "sys.modules['tensorboard.compat.notf'] = types.ModuleType('notf')\n"
)
MAIN = "\nfrom tensorboard.main import run_main\nrun_main()\n"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class TensorBoard:
    """Listens on a free port of 127.0.0.1 unless the flags say otherwise; `url` has no slash at its end.

    `preamble` is Python that the process runs before TensorBoard: to break something, for example. `runtime`
    is the folder in which its collector leaves a file for trainers.
    """

    def __init__(
        self,
        *flags: str,
        preamble: str = "",
        env: Mapping[str, str] | None = None,
        python: str | Path = sys.executable,
        host: str | None = "127.0.0.1",
        tensorflow: bool = False,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tensorboard-")
        folder = Path(self._folder.name)
        self.runtime = folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        code = ("" if tensorflow else WITHOUT_TENSORFLOW) + preamble + MAIN
        own = {"PYTHONUNBUFFERED": "1", "XDG_RUNTIME_DIR": str(self.runtime)}
        self.process = subprocess.Popen(
            [str(python), "-c", code, *(["--host", host] if host else []), "--port", "0", *flags],
            env={**os.environ, **own, **search_path(folder), **(env or {})},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read_log, name="log of TensorBoard", daemon=True)
        self._reader.start()
        try:
            found = self.wait_for_log(r"TensorBoard \S+ at (http://\S+?)/? \(Press")
        except BaseException:
            self.stop()
            raise
        self.url = found.group(1)
        address = urllib.parse.urlsplit(self.url)
        self.port, self.prefix = address.port or 0, address.path
        self.host = (address.hostname or "") if host else "localhost"

    @property
    def page(self) -> str:
        """TensorBoard with our tab open."""
        return f"{self.url}/#netdebug"

    @property
    def log(self) -> str:
        """What it wrote to its terminal so far."""
        return "".join(self._lines)

    def wait_for_log(self, pattern: str) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            return re.search(pattern, self.log)

        with self._news:
            self._news.wait_for(lambda: found() or self._ended, timeout=START_SECS)
        match = found()
        assert match is not None, f"TensorBoard did not say {pattern!r}, but:\n{self.log}"
        return match

    def request(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """`path` is one of our routes, or starts with a slash and is anything below the path prefix."""
        with self._connection(method, path, headers) as response:
            return Reply(response.status, _lower(response), response.read())

    def get(self, path: str, headers: Mapping[str, str] | None = None, **query: object) -> Reply:
        return self.request("GET", _with_query(path, query), headers)

    def json(self, path: str, **query: object) -> Any:
        """The answer of a route that has to work."""
        reply = self.request("GET", _with_query(path, query))
        assert reply.status == 200, (reply.status, reply.body, self.log)
        return reply.json()

    @contextmanager
    def stream(self, path: str = "live", headers: Mapping[str, str] | None = None) -> Iterator[EventStream]:
        with self._connection("GET", path, headers) as response:
            yield EventStream(response)

    @contextmanager
    def _connection(
        self, method: str, path: str, headers: Mapping[str, str] | None
    ) -> Iterator[http.client.HTTPResponse]:
        full = self.prefix + (path if path.startswith("/") else OURS + path)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=REPLY_SECS)
        try:
            connection.request(method, full, headers={**PROGRAM, **(headers or {})})
            # Closed by itself: the connection has given its socket to it.
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def stop(self) -> None:
        """Ends it as Ctrl-C or a shutdown would; safe to call twice."""
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        if self.process.stderr:
            self.process.stderr.close()
        self._folder.cleanup()

    def kill(self) -> None:
        """Ends it as nothing else does: in the middle of whatever it is at."""
        self.process.kill()
        self.stop()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


@dataclass(frozen=True)
class Event:
    """A server-sent event, or a comment, whose name is then ":"."""

    name: str
    data: Any
    id: str = ""


class EventStream:
    """Reads server-sent events; `status` and `headers` are those of the reply."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = _lower(response)

    def next(self) -> Event:
        """The next event or comment; raises EOFError when the stream has ended."""
        fields: dict[str, str] = {}
        while line := self._response.readline().decode():
            name, colon, value = line.rstrip("\n").partition(":")
            if not line.strip() and fields:
                return _event(fields)
            if colon:
                fields[name] = value.removeprefix(" ")
        raise EOFError("the stream has ended")

    def until(self, *names: str) -> Event:
        """The next event with one of these names."""
        while (event := self.next()).name not in names:
            pass
        return event

    def read(self) -> bytes:
        return self._response.read()


def _event(fields: Mapping[str, str]) -> Event:
    if "data" not in fields:
        return Event(":", fields.get("", ""))
    return Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))


def _lower(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _with_query(path: str, query: Mapping[str, object]) -> str:
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in query.items()
    }
    return f"{path}?{urllib.parse.urlencode(texts)}" if texts else path


def search_path(folder: Path) -> dict[str, str]:
    """Return where a child finds the package and its entry point: what to add to its environment."""
    if sys.flags.isolated:  # the installed wheel is tested
        return {}
    description = folder / "path/tb_netdebug-0.dist-info"
    description.mkdir(parents=True)
    (description / "METADATA").write_text("Metadata-Version: 2.1\nName: tb_netdebug\nVersion: 0\n")
    (description / "entry_points.txt").write_text(f"[tensorboard_plugins]\n{ENTRY_POINT}\n")
    return {"PYTHONPATH": os.pathsep.join([str(description.parent), str(ROOT)])}
