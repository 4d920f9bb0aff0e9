"""A real Chromium for tests of the page: one for all tests, a fresh window for each look.

    def test_something(chromium: Chromium, board: TensorBoard) -> None:
        with chromium.look(board, run="mlp") as page:
            page.tab.get_by_text("Loss").first.wait_for()

A look fails when the page complained on its console, threw, or asked another host for anything. Pictures of
what was looked at go to build/pictures/ when NETDEBUG_PICTURES is set: they are for people to look at.
"""

from __future__ import annotations

import csv
import io
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import FLAGS, NOTE_DRAWINGS, OUR_PAGE, NoChromiumError, need_chromium
from tests.support.tensorboard_process import TensorBoard

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Locator, Page

DESK = (1280, 800)
PHONE = (390, 844)
WAIT_MS = 30_000
PICTURES = Path(__file__).resolve().parents[2] / "build/pictures"
# TensorBoard's own page says this of itself, in every version so far.
NOT_OURS = re.compile(r"Three\.js|google-analytics|ResizeObserver loop")
NOTE_ALERTS = """
window.alerted = [];
window.alert = (text) => window.alerted.push(String(text));
"""
LAST_DRAWN = "(run) => window.netdebugSeen.findLast(([, each]) => each === run)?.[2] ?? -1"
# Two frames later a chart has followed its new size; the list slides away.
IS_DRAWN = """
([width, theme]) => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() =>
  resolve(window.innerWidth === width && document.documentElement.dataset.theme === theme
    && document.getAnimations().every((each) => each.playState !== "running")))))
"""
OVERFLOW = """
() => Math.max(...[document.documentElement, document.querySelector("main"), document.querySelector("aside")]
  .map((element) => element.scrollWidth - element.clientWidth))
"""


@dataclass(slots=True)
class Look:
    """An open page of TensorBoard (or ours alone); `tab` is the frame with NetDebug in it."""

    page: Page
    tab: Frame
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def chart(self, title: str) -> Locator:
        """The chart of lines with this title."""
        heading = self.tab.get_by_role("heading", name=title, exact=True)
        return self.tab.locator("figure.line-chart").filter(has=heading)

    def saved(self, button: Locator) -> bytes:
        """The file that a click on the button downloads; it hits also while the page still moves.

        A chart that has only just come into sight has nothing to save yet, so it is pressed again.
        """
        from playwright.sync_api import TimeoutError as NoDownload

        for wait_ms in (*[WAIT_MS / 15] * 14, WAIT_MS):
            try:
                with self.page.expect_download(timeout=wait_ms) as download:
                    button.dispatch_event("click")
                return Path(download.value.path()).read_bytes()
            except NoDownload:
                continue
        raise AssertionError("the button saves nothing")

    def table(self, chart: Locator) -> list[list[str]]:
        """The cells that the chart's CSV button saves, the header first."""
        text = self.saved(chart.get_by_role("button", name="CSV")).decode()
        return list(csv.reader(io.StringIO(text)))

    def curve(self, title: str, run: str, column: str = "value") -> dict[float, float]:
        """What a chart of lines draws of one of its lines, once it does: x and value of each point."""
        found: list[list[str]] = []

        def is_there() -> bool:
            found[:] = self.table(self.chart(title))
            return any(row[0] == run for row in found[1:])

        self.wait_until(is_there)
        at = found[0].index(column)
        return {float(row[1]): float(row[at] or "nan") for row in found[1:] if row[0] == run}

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Until something outside of the page is so."""
        deadline = time.monotonic() + WAIT_MS / 1000
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that"
            self.page.wait_for_timeout(20)

    @property
    def alerts(self) -> list[str]:
        """What scripts out of names would have said."""
        return [text for frame in self.page.frames for text in frame.evaluate("() => window.alerted ?? []")]

    def open(self, name: str) -> None:
        """Goes to one of our pages, such as "Layers"."""
        self.tab.get_by_role("navigation").get_by_text(name, exact=True).click()

    def wait_drawn(self, run: str, *, last: int = 0) -> None:
        """Until the chart of the loss shows a run up to this step."""
        self.tab.wait_for_function(f"([run, last]) => ({LAST_DRAWN})(run) >= last", arg=[run, last])

    def last_drawn(self, run: str) -> int:
        """The step up to which that chart shows it now; -1 when it does not."""
        step: int = self.tab.evaluate(LAST_DRAWN, run)
        return step

    def picture(self, name: str) -> None:
        if os.environ.get("NETDEBUG_PICTURES"):
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=PICTURES / f"{name}.png")

    def survey(self, name: str) -> None:
        """Looks at what is open now in both sizes and themes; for a page that stands alone."""
        for width, height in (DESK, PHONE):
            for theme in ("light", "dark"):
                self.page.set_viewport_size({"width": width, "height": height})
                self.page.emulate_media(color_scheme=theme)
                self.tab.wait_for_function(IS_DRAWN, arg=[width, theme])
                assert 0 == self.overflow
                self.picture(f"{name}-{width}-{theme}")

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        width: int = self.tab.evaluate(OVERFLOW)
        return width


@dataclass(slots=True)
class Chromium:
    browser: Browser

    @contextmanager
    def look(
        self, board: TensorBoard, link: Mapping[str, str] | None = None, *, size: tuple[int, int] = DESK,
        dark: bool = False, alone: bool = False, allowed: str = "$^", context: Any = None, **more: str,
    ) -> Iterator[Look]:  # fmt: skip
        """Opens TensorBoard at our tab, or with `alone` our page without TensorBoard around it.

        `link` and `more` are parameters of the deep link (run="mlp", page="layers"); complaints on the
        console that match `allowed` are none. A `context` is shared with other looks: tabs of one browser.
        """
        own = context or self.browser.new_context(**window(size, dark=dark))
        page = own.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(NOTE_DRAWINGS + NOTE_ALERTS)
        look = Look(page, page.main_frame)
        host = urllib.parse.urlsplit(board.url).netloc
        self._listen(look, host, re.compile(allowed))
        try:
            page.goto(address(board, {**(link or {}), **more}, dark=dark, alone=alone))
            look.tab = page.main_frame if alone else frame_of(page)
            yield look
        finally:
            page.close()
            if context is None:
                own.close()
        assert look.complaints == [], "the page complained"
        assert look.strangers == [], "the page asked somebody else"

    @staticmethod
    def _listen(look: Look, host: str, allowed: re.Pattern[str]) -> None:
        def complain(text: str) -> None:
            if not NOT_OURS.search(text) and not allowed.search(text):
                look.complaints.append(text)

        def note(url: str) -> None:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != host:
                look.strangers.append(url)

        look.page.on(
            "console", lambda said: complain(said.text) if said.type in ("error", "warning") else None
        )
        look.page.on("pageerror", lambda error: complain(str(error)))
        look.page.on("request", lambda request: note(request.url))


def window(size: tuple[int, int], *, dark: bool = False) -> dict[str, Any]:
    return {
        "viewport": {"width": size[0], "height": size[1]},
        "color_scheme": "dark" if dark else "light",
        "has_touch": size == PHONE,
    }


def address(board: TensorBoard, link: Mapping[str, str], *, dark: bool, alone: bool) -> str:
    parameters = [f"p.netdebug.{name}={urllib.parse.quote(value, safe='')}" for name, value in link.items()]
    place = "&".join(["netdebug", *parameters])
    if alone:
        return f"{board.url}{OUR_PAGE}#{place}"
    return f"{board.url}/{'?darkMode=true' if dark else ''}#{place}"


def frame_of(page: Page) -> Frame:
    """TensorBoard's frame with our page in it, as soon as it is there."""
    page.frame_locator("iframe").locator("nav").first.wait_for()
    return next(frame for frame in page.frames if OUR_PAGE in frame.url)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Skips without a browser; under CI, or where one was named, that is a failure."""
    try:
        path = need_chromium()
    except NoChromiumError as error:
        if os.environ.get("CI") or os.environ.get("NETDEBUG_CHROMIUM"):
            raise
        pytest.skip(str(error))
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield Chromium(browser)
        browser.close()


@dataclass(frozen=True, slots=True)
class Gallery:
    """A TensorBoard with a run of each kind, and where they are; nothing is written to them any more."""

    board: TensorBoard
    logdir: Path


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """healthy, blown-up, ranks, scalars (without samples) and summary (not ours)."""
    from tests.support.recordings import record_gallery

    logdir = tmp_path_factory.mktemp("gallery")
    record_gallery(logdir)
    with TensorBoard("--logdir", str(logdir)) as board:
        yield Gallery(board, logdir)
