"""A page that others can open, too, controls a training only with the token that somebody pastes into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tb_netdebug.cli import main
from tests.support.browser import DESK, WAIT_MS, Chromium, Look, window
from tests.support.https_proxy import HttpsProxy
from tests.support.steppable_training import SteppableTraining
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import OURS, TensorBoard

# As if it listened to the network; the tests of the plugin have one that does.
OPEN = "from tb_netdebug.viewer.plugin import control\ncontrol.is_ours_alone = lambda environ: False\n"
STORED = "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    assert 0 == main(["token", "--tls", "--output", str(folder)])
    return folder


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[TensorBoard]:
    """With one training that can be paused."""
    logdir = tmp_path_factory.mktemp("open")
    flags = ("--logdir", str(logdir), "--netdebug_token_file", str(keys / "token"))
    with (
        Home() as home,
        TensorBoard(*flags, env=home.env, preamble=OPEN) as found,
        SteppableTraining(home, logdir, "digits"),
    ):
        wait_for(lambda: found.json("debugger/sessions")["sessions"])
        yield found


@contextmanager
def opened(chromium: Chromium, url: str) -> Iterator[Look]:
    context = chromium.browser.new_context(**window(DESK), ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{url}{OURS}index.html#netdebug&p.netdebug.page=debugger")
    try:
        yield Look(page, page.main_frame)
    finally:
        context.close()


def test_a_pasted_token_controls_the_training(chromium: Chromium, board: TensorBoard, keys: Path) -> None:
    """A wrong one does not; the right one is asked for anew after a reload, since it is stored nowhere."""
    token = (keys / "token").read_text().strip()
    with HttpsProxy(board.port, keys) as proxy, opened(chromium, proxy.url) as page:
        field = page.tab.get_by_label("Token")
        state = page.tab.get_by_role("region", name="Run controls").get_by_role("status").first
        expect(state).to_contain_text("Running, in batch")
        page.survey("debugger-token")
        page.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
        field.fill("x" * 43)
        field.press("Enter")
        expect(page.tab.get_by_role("alert")).to_contain_text("not the token of --netdebug_token_file")
        field.fill(token)
        page.tab.get_by_role("button", name="Use token").click()
        expect(field).to_have_count(0)
        page.tab.get_by_role("button", name="Pause", exact=True).click()
        expect(state).to_contain_text("Paused in batch")
        expect(page.tab.get_by_text("You hold the controls.")).to_be_visible()
        expect(page.tab.get_by_role("region", name="Layers")).to_contain_text("encoder")
        page.picture("debugger-token-paused")
        assert token not in page.tab.evaluate(STORED)
        page.page.reload()
        expect(field).to_be_visible()


def test_no_token_is_asked_for_in_the_clear(chromium: Chromium, board: TensorBoard) -> None:
    """The page says how to get there instead."""
    with opened(chromium, board.url) as page:
        expect(page.tab.get_by_text("open it over HTTPS, where it asks for a token")).to_be_visible()
        expect(page.tab.locator("input[type=password]")).to_have_count(0)
