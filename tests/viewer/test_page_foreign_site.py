"""Pages of other sites that ask our routes for all they can: the user's own page does not notice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tb_netdebug.viewer.plugin.event_stream import MOST_STREAMS
from tests.support.browser import WAIT_MS, Chromium
from tests.support.run_cases import RecordedRun
from tests.support.tensorboard_process import OURS, TensorBoard

COUNT = 30
ROUTES = ("live", "runs", "run?run=mine", "columns?q=[]", "graph?run=mine", "debugger/sessions")
# What reaches the code behind the gate is told in TensorBoard's terminal.
TELL = """
import sys
from dataclasses import replace
from tb_netdebug.viewer.plugin import application
def told(name, answer):
    def wrapped(service, request):
        sys.stderr.write(f"reached {name} by {request.headers.get('User-Agent', '')[:8]}\\n")
        return answer(service, request)
    return wrapped
for name, route in application.ROUTES.items():
    if name not in ("index.html", "index.js", "assets/*"):
        application.ROUTES[name] = replace(route, answer=told(name, route.answer))
"""
# Every way of a page to ask another site for something. Each settles, whatever becomes of it; a frame loads
# also when it shows an error, and a stream that was let in never ends.
ATTACK = """
async ([url, count]) => {
  const settled = (element, name) => new Promise((resolve) => {
    for (const event of ["load", "error"]) element.addEventListener(event, () => resolve(`${name} ${event}`));
    document.body.append(element);
  });
  const made = (name, given) => Object.assign(document.createElement(name), given);
  const of = {
    frame: (at) => settled(made("iframe", { src: at }), "frame"),
    image: (at) => settled(made("img", { src: at }), "image"),
    script: (at) => settled(made("script", { src: at }), "script"),
    module: (at) => settled(made("script", { src: at, type: "module" }), "module"),
    style: (at) => settled(made("link", { rel: "stylesheet", href: at }), "style"),
    object: (at) => settled(made("object", { data: at }), "object"),
    video: (at) => settled(made("video", { src: at, preload: "auto" }), "video"),
    form: (at, n) => {
      const frame = made("iframe", { name: `form${n}`, srcdoc: "" });
      const form = made("form", { action: at, method: "get", target: `form${n}` });
      document.body.append(frame, form);
      const loaded = new Promise((resolve) => frame.addEventListener("load", () => resolve("form load")));
      form.submit();
      return loaded;
    },
    events: (at) => new Promise((resolve) => {
      const source = new EventSource(at);
      source.onopen = () => resolve("events open");
      source.onerror = () => resolve("events error");
    }),
  };
  for (const [name, request] of Object.entries({
    opaque: { mode: "no-cors" },
    read: { mode: "cors" },
    claimed: { mode: "cors", headers: { "X-NetDebug": "1" } },
    smuggled: { mode: "no-cors", headers: { "X-NetDebug": "1" } },
    credentials: { mode: "no-cors", credentials: "include" },
  }))
    of[name] = (at) => fetch(at, request).then((reply) => `${name} ${reply.type}`, () => `${name} error`);
  const all = Object.values(of).flatMap((ask) => Array.from({ length: count }, (_, n) => ask(url, n)));
  return Promise.all(all);
}
"""


@contextmanager
def foreign_site(host: str) -> Iterator[str]:
    """An empty page at a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<!doctype html><title>elsewhere</title><body></body>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def run(logdir: Path) -> Iterator[RecordedRun]:
    recorded = RecordedRun(logdir / "mine")
    recorded.add(5)  # steps 0 to 4
    yield recorded
    recorded.close()


@pytest.fixture(scope="module")
def board(logdir: Path, run: RecordedRun) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(logdir), preamble=TELL) as started:
        yield started


def reached(board: TensorBoard) -> Counter[str]:
    """How often requests of browsers got behind the gate, by route."""
    lines = [line.split() for line in board.log.splitlines() if line.startswith("reached ")]
    return Counter(words[1] for words in lines if words[-1].startswith("Mozilla"))


# To 127.0.0.1, where TensorBoard is, localhost is another site, and another port the same one.
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_foreign_page_reaches_nothing(
    chromium: Chromium, board: TensorBoard, host: str, route: str
) -> None:
    """With frames, pictures, scripts, forms, fetches and streams; not one of them gets to a route's code."""
    before = reached(board)
    context = chromium.browser.new_context()
    with foreign_site(host) as url:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(url)
        count = COUNT if route == "live" else 2
        ended = page.evaluate(ATTACK, [f"{board.url}{OURS}{route}", count])
        context.close()
    assert 14 * count == len(ended)
    assert "events open" not in ended
    assert before == reached(board)


def test_our_own_page_works_beside_it(chromium: Chromium, board: TensorBoard, run: RecordedRun) -> None:
    """In the same browser, while the foreign page is open; it shares one stream with its other tabs."""
    context = chromium.browser.new_context()
    before = reached(board)["live"]
    with foreign_site("localhost") as url, ExitStack() as stack:
        foreign = context.new_page()
        foreign.set_default_timeout(WAIT_MS)
        foreign.goto(url)
        foreign.evaluate(ATTACK, [f"{board.url}{OURS}live", COUNT])
        for last in (7, 10):
            look = stack.enter_context(
                chromium.look(board, {"run": "mine", "with": "mine"}, alone=True, context=context)
            )
            run.add(3)
            look.wait_drawn("mine", last=last)
            expect(look.tab.get_by_role("status").filter(has_text="Live")).to_be_visible()
        assert before + 1 == reached(board)["live"]
        streams = [stack.enter_context(board.stream()) for _ in range(MOST_STREAMS - 1)]
        assert {200} == {stream.status for stream in streams}
    context.close()


def test_other_sites_may_lead_to_the_page(chromium: Chromium, board: TensorBoard) -> None:
    """Somebody follows a link in a chat; the page opens, and a link to the numbers shows none."""
    context = chromium.browser.new_context()
    with foreign_site("localhost") as url:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        for place, text in (("index.html", "Overview"), ("runs", "another web site")):
            page.goto(url)
            page.evaluate("(at) => { location.href = at; }", f"{board.url}{OURS}{place}")
            expect(page.get_by_text(text).first).to_be_visible()
    context.close()
