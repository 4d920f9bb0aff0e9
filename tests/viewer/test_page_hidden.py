"""Who holds the stream of news: one for all tabs, none for an unseen page, another after a restart."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import expect

from tests.support.browser import DESK, Chromium, window
from tests.support.run_cases import RecordedRun
from tests.support.tensorboard_process import TensorBoard

TABS = 8
# Nothing of what the browser says of a server that is away.
AWAY = "ERR_|Failed to (load|fetch)"


@pytest.fixture
def run(logdir: Path) -> Iterator[RecordedRun]:
    run = RecordedRun(logdir / "run")
    run.add(20)
    yield run
    run.close()


def streams(board: TensorBoard) -> int:
    """How many connections the server holds."""
    connections = psutil.Process(board.process.pid).net_connections("tcp")
    return sum(one.status == "ESTABLISHED" and one.laddr.port == board.port for one in connections)


def test_another_tab_of_tensorboard_closes_the_stream(
    chromium: Chromium, logdir: Path, run: RecordedRun
) -> None:
    """Hidden the page holds no connection; shown again it draws what it missed."""
    with TensorBoard("--logdir", str(logdir)) as board, chromium.look(board, run="run") as page:
        page.wait_drawn("run", last=19)
        page.wait_until(lambda: streams(board) == 1)
        page.page.get_by_role("tab", name="Time Series").or_(
            page.page.get_by_text("Time Series")
        ).first.click()
        page.tab.wait_for_function("() => window.innerHeight === 0")
        assert "visible" == page.tab.evaluate("() => document.visibilityState")
        page.wait_until(lambda: streams(board) == 0)
        run.add(10)
        page.page.get_by_text("NetDebug", exact=True).first.click()
        page.wait_drawn("run", last=29)
        page.wait_until(lambda: streams(board) == 1)


def test_eight_tabs_share_one_stream(chromium: Chromium, logdir: Path, run: RecordedRun) -> None:
    """Six streams would take all connections that the browser grants TensorBoard."""
    with TensorBoard("--logdir", str(logdir)) as board, ExitStack() as tabs:
        context = chromium.browser.new_context(**window(DESK))
        tabs.callback(context.close)
        pages = [
            tabs.enter_context(chromium.look(board, context=context, alone=True, run="run"))
            for _ in range(TABS)
        ]
        for page in pages:
            page.wait_drawn("run", last=19)
            answer = page.tab.evaluate("async () => (await fetch('/data/runs')).json()")
            assert ["run"] == answer
        pages[0].wait_until(lambda: streams(board) == 1)
        run.add(5)
        for page in pages:
            page.page.bring_to_front()
            page.wait_drawn("run", last=24)


def test_a_restarted_server_is_found_again(chromium: Chromium, logdir: Path, run: RecordedRun) -> None:
    """While it is away the page says so and keeps its picture; then it draws what is new."""
    with ExitStack() as boards:
        first = boards.enter_context(TensorBoard("--logdir", str(logdir)))
        with chromium.look(first, run="run", allowed=AWAY) as page:
            page.wait_drawn("run", last=19)
            first.stop()
            expect(page.tab.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
            assert 20 == len(page.curve("Loss", "run"))
            page.picture("server-gone")
            run.add(10)
            boards.enter_context(TensorBoard("--logdir", str(logdir), "--port", str(first.port)))
            page.wait_drawn("run", last=29)
            expect(page.tab.get_by_role("status").filter(has_text=re.compile("Live|old"))).to_be_visible()
            run.add(1)
            page.wait_drawn("run", last=30)


def test_a_page_without_a_server_says_so(chromium: Chromium, logdir: Path, run: RecordedRun) -> None:
    """When it never got an answer, there is a sentence and a button, which then works."""
    with ExitStack() as stack:
        board = stack.enter_context(TensorBoard("--logdir", str(logdir)))
        page = stack.enter_context(chromium.look(board, alone=True, run="run", allowed=AWAY))
        page.page.route("**/runs", lambda route: route.abort())
        page.page.clock.install()
        page.page.reload()
        notice = page.tab.get_by_role("alert")
        expect(notice).to_contain_text("TensorBoard is not responding")
        page.picture("server-never")
        # Its clock stands still: only the button can be what asks again.
        page.page.clock.pause_at(time.time() + 1)
        with page.page.expect_request("**/runs"):
            notice.get_by_role("button", name="Retry now").dispatch_event("click")
        page.page.unroute("**/runs")
        page.page.clock.resume()
        page.wait_drawn("run", last=19)
