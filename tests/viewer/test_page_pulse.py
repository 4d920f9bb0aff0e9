"""How a training ended, and that nothing comes any more, as the page tells it; and what its token is for."""

from __future__ import annotations

import http.server
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tests.support.agents import KILLED, agent_file, ended, sample
from tests.support.browser import Chromium
from tests.support.tensorboard_process import OURS, TensorBoard

GIB = 1 << 30
ROUTE = """
from tb_netdebug.viewer.plugin import application, queries, replies
told = []
def act(service, request):
    told.append(queries.json_object(request.get_data()))
    return replies.json_reply(request, {"told": told})
application.ROUTES["test/act"] = application.Route(act, methods=("POST",))
application.ROUTES["test/look"] = application.Route(
    lambda service, request: replies.json_reply(request, {"told": told}))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TensorBoard, Path]]:
    """A training that was killed, one that ended well, one that is stuck and one whose machine is gone."""
    logdir = tmp_path_factory.mktemp("pulse")
    now = time.time()
    for name in ("killed", "well", "stuck", "silent"):
        foreign(logdir / name, now - 60)
    course = [sample(now - 300 + second, GIB + second * GIB // 100) for second in range(200)]
    last = sample(now - 60, ending=ended(now - 60, signal=9, memory=True))
    secs = int(now - 300)
    agent_file(logdir / "killed", [*course, last], secs=secs)
    agent_file(logdir / "well", [sample(now - 60, ending=ended(now - 60, well=True, code=0))], secs=secs)
    agent_file(logdir / "stuck", [sample(now)], secs=secs)
    silent = agent_file(logdir / "silent", [sample(now - 120)], secs=secs)
    touch(silent, now - 120)
    with TensorBoard("--logdir", str(logdir), preamble=ROUTE) as board:
        yield board, logdir


def foreign(folder: Path, changed: float) -> None:
    """A run that was written on another machine."""
    writer = EventWriter(folder, mirror=None)
    for step in range(20):
        told = {"loss": 1 / (step + 1), "time/step": 0.01, "memory/rss": float(GIB)}
        writer.put(StepRecord(step, changed - 240 + step / 10, told))
    writer.close()
    (file,) = folder.glob("events*")
    parts = file.name.split(".")
    renamed = file.with_name(".".join([*parts[:3], f"{changed - 240:.0f}", "far", "7", *parts[-2:]]))
    file.rename(renamed)
    touch(renamed, changed)


def touch(file: Path, changed: float) -> None:
    os.utime(file, (changed, changed))


def test_a_killed_training_says_so_first(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """In the list and on the Overview, in words, with what the agent saw."""
    with chromium.look(place[0], alone=True, run="killed") as page:
        state = page.tab.get_by_role("region", name="Run state")
        expect(state).to_contain_text("Ended: killed by signal 9, out of memory")
        expect(state).to_contain_text(KILLED)
        row = page.tab.get_by_role("button", name=re.compile("^killed"))
        expect(row).to_contain_text("out of memory")
        expect(row).to_have_attribute("title", re.compile("Ended: killed by signal 9, out of memory"))
        expect(page.tab.get_by_role("status").first).to_contain_text(re.compile(r"Ended \d+ (s|min) ago"))
        page.survey("pulse-killed")


def test_the_memory_of_all_processes_is_drawn(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """Over time, up to its peak before the end."""
    with chromium.look(place[0], alone=True, page="resources", run="killed") as page:
        section = page.tab.locator("section.page-section").filter(
            has=page.tab.get_by_role("heading", name="Processes, seen from outside")
        )
        expect(section).to_contain_text("3 processes with 21 threads had 2.99 GiB of memory")
        rows = page.table(section.locator("figure.line-chart"))[1:]
        assert 200 == len(rows)
        assert [GIB + second * GIB // 100 for second in range(200)] == [int(float(row[2])) for row in rows]
        section.scroll_into_view_if_needed()
        page.survey("pulse-resources")


def test_a_training_that_ended_well_is_told_in_passing(
    chromium: Chromium, place: tuple[TensorBoard, Path]
) -> None:
    """Without a card of its own."""
    with chromium.look(place[0], alone=True, run="well") as page:
        expect(page.tab.locator(".run-summary")).to_contain_text("ended normally")
        expect(page.tab.get_by_role("region", name="Run state")).to_have_count(0)


def test_a_stuck_training_is_alive(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """As long as the agent tells of it; the seconds count on."""
    board, logdir = place
    (file,) = (logdir / "stuck").rglob("agent0*")
    touch(file, time.time())
    with chromium.look(board, alone=True, run="stuck") as page:
        state = page.tab.get_by_role("region", name="Run state")
        words = re.compile(r"No data for \d+ (s|min); the trainer is alive: its 3 processes keep 1.5")
        expect(state).to_contain_text(words)
        expect(page.tab.locator(".live-text")).to_contain_text("No data for")


def test_a_machine_that_does_not_answer_is_told(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """With what will become of its records."""
    with chromium.look(place[0], alone=True, run="silent") as page:
        state = page.tab.get_by_role("region", name="Run state")
        expect(state).to_contain_text("its machine is not responding. What it records in the meantime")
        row = page.tab.get_by_role("button", name=re.compile("^silent"))
        expect(row).to_contain_text("no data for")
        page.survey("pulse-silent")


POST = """
([path, token]) => fetch(path, {method: "POST", body: '{"a":1}', headers: {"Content-Type": "application/json",
  "X-NetDebug-Token": token ?? document.querySelector("meta[name=netdebug-token]").content}})
  .then((reply) => reply.status)
"""


def test_our_page_may_change_something(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """With the token that came in it, also inside of TensorBoard's frame, and not with another."""
    board = place[0]
    with chromium.look(board, run="well", allowed="403") as page:
        assert [200, 403] == [page.tab.evaluate(POST, ["test/act", token]) for token in (None, "x" * 43)]
        assert 1 == len(board.json("test/look")["told"])


ATTACK = """<!doctype html><title>evil</title><iframe id="frame" src="{page}"></iframe><script>
const tried = [
  fetch("{act}", {{method: "POST", mode: "no-cors", body: '{{"evil":1}}'}}),
  fetch("{act}", {{method: "POST", body: "{{}}", headers: {{"Content-Type": "application/json",
    "X-NetDebug-Token": "x"}}}}),
  fetch("{page}"),
  fetch("{act}", {{method: "POST", mode: "no-cors", credentials: "include", body: new FormData()}}),
  fetch("{others}", {{mode: "no-cors"}}),
];
Promise.allSettled(tried).then((all) => {{ document.title = all.map((one) => one.status).join(" "); }});
</script>"""


@pytest.fixture
def attacker(place: tuple[TensorBoard, Path]) -> Iterator[str]:
    """A web page of another origin, which tries what such a page can."""
    board = place[0]
    ours = f"{board.url}{OURS}"
    body = ATTACK.format(
        page=f"{ours}index.html", act=f"{ours}test/act", others=f"{board.url}/data/runs"
    ).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_another_site_changes_and_reads_nothing(
    chromium: Chromium, place: tuple[TensorBoard, Path], attacker: str
) -> None:
    """Neither by a simple request, nor after a preflight, nor with our page in a frame of its own."""
    board = place[0]
    before = board.json("test/look")["told"]
    context = chromium.browser.new_context()
    page = context.new_page()
    page.goto(attacker)
    page.wait_for_function("() => document.title !== 'evil'")
    # Such a page gets through to TensorBoard's own routes, but not to ours.
    assert "rejected rejected rejected rejected fulfilled" == page.title()
    framed = page.frames[1]
    assert "index.html" not in framed.url or framed.locator("#page").count() == 0
    assert before == board.json("test/look")["told"]
    context.close()
