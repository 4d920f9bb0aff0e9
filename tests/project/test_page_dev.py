"""`make page-dev`: the sources of the page and a real TensorBoard at one address, and how all of it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tb_netdebug.viewer.plugin.application import ROUTES
from tests.support.browser import Chromium
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import PROGRAM, EventStream, Reply, search_path
from tests.support.terminal import Terminal, environment

ROOT = Path(__file__).resolve().parents[2]
# As `renewedToken` of the page finds it.
TOKEN = re.compile(r'<meta name="netdebug-token" content="([\w-]{43})"')
LIVE = "live/healthy"
RECORDED = {"healthy", "deep-sigmoid", "loss-not-a-number", "two-processes", "summary-writer"}
SERVED_HERE = ("index.html", "index.js", "assets/*")
REPLY_SECS = 60
LIMIT_SECS = 10.0
Start = Callable[[], Terminal]


RECORD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from recordings import recorded
recorded(Path(sys.argv[2]), seconds=1, children=[])
"""
# Programs are started side by side here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Programs find the package and our entry point, but not TensorFlow, whose import takes seconds."""
    path = tmp_path_factory.mktemp("path")
    (path / "tensorflow.py").write_text("raise ImportError")
    known = {**environment(), **search_path(path)}
    known["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), known["PYTHONPATH"]]))
    with Home() as home:
        yield {**known, **home.env}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, env: dict[str, str]) -> Path:
    """With the recordings, which the programs find there."""
    subprocess.run([sys.executable, ROOT / "tools/build_page.py", "modules"], check=True)
    made = tmp_path_factory.mktemp("page-dev")
    subprocess.run([sys.executable, "-c", RECORD, ROOT / "demo", made], env=env, check=True)
    return made


@pytest.fixture
def start(folder: Path, env: dict[str, str]) -> Iterator[Start]:
    """Starts it in a terminal; whatever a test leaves of it is killed."""
    command = [sys.executable, ROOT / "demo/page_dev.py", "--folder", folder]
    with ExitStack() as started:
        yield lambda: started.enter_context(Terminal(command, env, width=200))


class Page:
    """What a browser gets that opened the printed address."""

    def __init__(self, terminal: Terminal) -> None:
        terminal.wait_for_output(r"data +http")
        found = re.search(r"page +(http://\S+)/ from", terminal.written)
        assert found is not None
        self.url = found[1]
        self.netloc = urllib.parse.urlsplit(self.url).netloc

    @contextmanager
    def asked(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.netloc, timeout=REPLY_SECS)
        try:
            connection.request(method, path, body, dict(headers))
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] = PROGRAM) -> Reply:
        with self.asked("GET", path, headers) as response:
            return Reply(response.status, dict(response.getheaders()), response.read())

    def post(self, path: str, value: Mapping[str, Any], **headers: str) -> Reply:
        own = {"Content-Type": "application/json", "Origin": self.url, **PROGRAM}
        with self.asked("POST", path, {**own, **headers}, json.dumps(value)) as response:
            return Reply(response.status, dict(response.getheaders()), response.read())

    def runs(self) -> dict[str, dict[str, Any]]:
        return {run["name"]: run for run in self.get("/runs").json()["runs"]}


def children_of(terminal: Terminal) -> list[psutil.Process]:
    found = psutil.Process(terminal.process.pid).children(recursive=True)
    words = [" ".join(child.cmdline()) for child in found]
    for part in ("tensorboard.main", "digits.py", "vite.js"):
        assert any(part in each for each in words), words
    return found


def assert_gone(children: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(children, timeout=LIMIT_SECS)
    assert [] == alive


def test_the_page_over_real_trainings(start: Start, folder: Path, chromium: Chromium) -> None:
    """The sources are served, what asks for data is passed on, and all of it ends with Ctrl-C."""
    assert RECORDED == {path.name for path in (folder / "runs").iterdir()} - {"live"}
    terminal = start()
    page = Page(terminal)
    wait_for(lambda: page.runs().keys() == RECORDED | {LIVE})
    runs = page.runs()
    assert {name: "summary" if name == "summary-writer" else "netdebug" for name in runs} == {
        name: run["kind"] for name, run in runs.items()
    }
    assert [0, 1] == page.get("/run?run=two-processes").json()["ranks"]
    assert "sick" == runs["loss-not-a-number"]["verdict"]
    check_sources(page)
    check_refusals(page)
    check_control(page)
    check_in_browser(page, chromium)
    children = children_of(terminal)
    terminal.press("\x03")
    assert 0 == terminal.end()
    assert "All that was started has ended." in terminal.written
    assert "Traceback" not in terminal.written
    assert_gone(children)


def check_sources(page: Page) -> None:
    """The page and its sources come from Vite, with the part that reloads them, and TensorBoard's token."""
    html = page.get("/", {}).body.decode()
    assert html == page.get("/index.html", {}).body.decode()
    assert 1 == len(TOKEN.findall(html))
    assert "/@vite/client" in html
    for path in ("/@vite/client", "/src/main.tsx", "/src/live-worker.ts?worker_file&type=module"):
        reply = page.get(path, {})
        assert (200, True) == (reply.status, "javascript" in reply.headers["Content-Type"]), path


def check_refusals(page: Page) -> None:
    """TensorBoard sees the headers of whoever asks, and refuses as it does without Vite."""
    bare = page.get("/runs", {})
    assert (403, True) == (bare.status, "This needs the header X-NetDebug" in bare.json()["error"])
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        reply = page.get("/runs", {**PROGRAM, **headers})
        assert (403, True) == (reply.status, "another web site" in reply.json()["error"]), headers
    assert 403 == page.get("/runs", {**PROGRAM, "Host": "evil.example"}).status
    for route in ROUTES:
        if route not in SERVED_HERE:
            assert page.get(f"/{route}", {}).status in (403, 405), route


def check_control(page: Page) -> None:
    """A training is attended only from the page, with its token; the stream of news is open."""
    [token] = TOKEN.findall(page.get("/", {}).body.decode())
    wait_for(lambda: page.get("/debugger/sessions").json()["sessions"])
    [session] = page.get("/debugger/sessions").json()["sessions"]
    assert LIVE.split("/") == session["session"]["run"]
    asked = {"client": "a" * 16, "label": "Anna", "sessions": [session["key"]]}
    with_token = {"X-NetDebug-Token": token}
    assert 403 == page.post("/debugger/attend", asked).status
    assert 403 == page.post("/debugger/attend", asked, **with_token, Origin="http://localhost:1").status
    assert 200 == page.post("/debugger/attend", asked, **with_token).status
    with page.asked("GET", "/live", PROGRAM) as response:
        assert "epoch" in EventStream(response).until("hello").data


def check_in_browser(page: Page, chromium: Chromium) -> None:
    """The page shows the runs, and complains of nothing."""
    window = chromium.browser.new_page()
    complaints: list[str] = []
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    try:
        window.goto(page.url)
        window.get_by_text("deep-sigmoid").first.wait_for()
        assert [] == complaints
    finally:
        window.close()


def test_whatever_ends_it_ends_its_children(start: Start, folder: Path) -> None:
    """Even when it has no time to ask them. What is recorded is not recorded again."""
    recording = folder / "runs/healthy"
    number = recording.stat().st_ino
    terminal = start()
    Page(terminal)
    assert number == recording.stat().st_ino
    children = children_of(terminal)
    terminal.send(signal.SIGKILL)
    assert -signal.SIGKILL == terminal.end()
    assert_gone(children)


def test_without_an_address_the_server_of_the_page_says_what_is_missing(folder: Path) -> None:
    """Nobody looks at an empty page and wonders."""
    words = ["node", ROOT / "frontend/node_modules/vite/bin/vite.js", ROOT / "frontend"]
    ran = subprocess.run(
        [*words, "--config", ROOT / "frontend/vite.dev.config.ts"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment(NETDEBUG_API=""), text=True, check=False,
    )  # fmt: skip
    assert 1 == ran.returncode
    assert "NETDEBUG_API does not say where the data is" in ran.stdout
