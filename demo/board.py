"""TensorBoard as a child of the demo, and whether it has the page of NetDebug."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from children import Child

START_SECS = 60.0
REPLY_SECS = 10.0
ADDRESS = re.compile(r"TensorBoard \S+ at (http://\S+?)/? \(Press")
# Of this machine alone, whatever proxies the environment names.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class BoardError(Exception):
    """Why there is nothing to look at, in words for the user."""


@dataclass(frozen=True, slots=True)
class Board:
    """A TensorBoard that answers; `url` has no slash at its end."""

    child: Child
    url: str

    @property
    def page(self) -> str:
        """Where a browser sees the tab of NetDebug."""
        return f"{self.url}/#netdebug"

    def check_page(self) -> None:
        """Raises BoardError unless the page of NetDebug is served, and is built."""
        if "netdebug" not in json.loads(self._fetch("/data/plugins_listing", "TensorBoard runs, but")):
            raise BoardError(
                "TensorBoard runs, but does not know NetDebug: the package is not installed for this Python. "
                "`make demo` installs it, and so does `pip install .`."
            )
        self._fetch("/data/plugin/netdebug/runs", "TensorBoard runs, but NetDebug does not:")
        self._fetch(
            "/data/plugin/netdebug/index.html",
            "TensorBoard and NetDebug run, but the page was not built into this installation. `make demo` "
            "builds it, for which Node.js has to be installed:",
        )

    def _fetch(self, path: str, complaint: str) -> bytes:
        try:
            return fetch(self.url + path)
        except HTTPError as error:
            raise BoardError(f"{complaint} {told(error)}") from error
        except OSError as error:
            raise BoardError(f"TensorBoard does not answer: {error}") from error


def start(logdir: Path, *, port: int, output: Path) -> Child:
    """TensorBoard for these runs alone; it takes a few seconds until it answers. 0 is any free port."""
    # Its own dashboards reload every 30 s by default, which is no way to watch a short training.
    flags = ["--logdir", logdir, "--host", "localhost", "--port", port, "--reload_interval", "5"]
    return Child.start("TensorBoard", ["-m", "tensorboard.main", *map(str, flags)], output=output)


def wait_for(child: Child, *, port: int) -> Board:
    """The board once it answers; raises BoardError when it does not come up."""
    return Board(child, address(child, ADDRESS, lambda: refusal(child, port)))


def address(child: Child, pattern: re.Pattern[str], refusal: Callable[[], str]) -> str:
    """Return the address that a server prints once it answers; raise BoardError when it does not come up."""
    deadline = time.monotonic() + START_SECS
    while time.monotonic() < deadline:
        found = pattern.search(child.printed())
        if found:
            return found[1]
        if not child.is_running:
            raise BoardError(refusal())
        time.sleep(0.05)
    raise BoardError(
        f"{child.name} did not start within {START_SECS:.0f} s. What it said is in {child.output}."
    )


def refusal(child: Child, port: int) -> str:
    if "already in use" in child.printed():
        return f"Port {port} is in use. Choose another one with --port, or none: then a free one is taken."
    return child.ending()


def fetch(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"X-NetDebug": "1"})  # we are no web page of anybody's
    with OPENER.open(request, timeout=REPLY_SECS) as reply:
        body: bytes = reply.read()
    return body


def told(error: HTTPError) -> str:
    """What the server said beside the number."""
    body = error.read()
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url} answers {error.code} {error.reason}."
