"""The state of the page as a link, and the page without a mouse."""

from __future__ import annotations

import re
import urllib.parse
from contextlib import suppress

import pytest
from playwright.sync_api import expect

from tests.support.browser import Chromium, Gallery, Look
from tests.support.recordings import STEPS

STATES: list[dict[str, str]] = [
    {"run": "healthy", "with": "healthy", "range": "5~30", "axis": "samples", "smoothing": "0.5"},
    {"page": "layers", "run": "healthy", "v.layers.kind": "weight", "v.layers.tensor": "2.bias"},
    {"page": "histograms", "run": "healthy", "v.histograms.kind": "update", "v.histograms.tensor": "4.weight",
     "v.histograms.step": "12", "v.histograms.vs": "3"},
    {"page": "resources", "run": "ranks", "rank": "1"},
    {"page": "graph", "run": "healthy", "v.graph.module": "3", "v.graph.view": "list"},
]  # fmt: skip


def state(page: Look) -> dict[str, str]:
    """What the address says, in TensorBoard's own window."""
    pieces = urllib.parse.urlsplit(page.page.url).fragment.split("&")[1:]
    pairs = (piece.removeprefix("p.netdebug.").split("=", 1) for piece in pieces)
    return {name: urllib.parse.unquote(value) for name, value in pairs}


def words(page: Look) -> str:
    """What can be read on the page, once it has been read."""
    expect(page.tab.locator("main")).not_to_contain_text(re.compile("Reading the|Looking for|Loading"))
    return page.tab.locator("main").inner_text()


def wait_for_the_same(first: Look, second: Look) -> None:
    with suppress(AssertionError):
        second.wait_until(lambda: words(first) == words(second))
    assert words(first) == words(second)  # says what differs


def test_what_is_chosen_gets_into_the_address(chromium: Chromium, gallery: Gallery) -> None:
    """Of TensorBoard, whose link it is that people copy; and a reload brings it back."""
    with chromium.look(gallery.board, run="healthy") as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        page.open("Layers")
        page.tab.get_by_role("radio", name="Weights").click()
        page.tab.get_by_label("Statistic").select_option("max")
        chosen = {"page": "layers", "run": "healthy", "v.layers.kind": "weight", "v.layers.stat": "max"}
        page.page.wait_for_url(re.compile("layers.stat=max"))
        assert chosen == state(page)
        page.page.reload()
        frame = page.page.frame_locator("iframe")
        expect(frame.get_by_role("img", name=re.compile("^max of weights"))).to_be_visible()
        page.page.wait_for_url(re.compile("layers.stat=max"))
        assert chosen == state(page)


@pytest.mark.parametrize("link", STATES, ids=[each.get("page", "overview") for each in STATES])
def test_a_link_shows_the_same_elsewhere(chromium: Chromium, gallery: Gallery, link: dict[str, str]) -> None:
    """Opened in another browser, and after a reload: the same words, and the same link."""
    with (
        chromium.look(gallery.board, link, alone=True) as first,
        chromium.look(gallery.board, state(first), alone=True) as second,
    ):
        wait_for_the_same(first, second)
        second.page.reload()
        wait_for_the_same(first, second)
        assert link == state(second) == state(first)


def test_wrong_links_are_passed_over(chromium: Chromium, gallery: Gallery) -> None:
    """Of a link with nonsense, what has a meaning counts."""
    link = {
        "page": "nowhere",
        "range": "9~3",
        "smoothing": "many",
        "rank": "-1",
        "axis": "width",
        "run": "gone",
    }
    with chromium.look(gallery.board, link, alone=True) as page:
        expect(page.tab.get_by_role("link", name="Overview")).to_have_attribute("aria-current", "page")
        expect(page.tab.get_by_role("region", name="Vital signs")).to_be_visible()


def test_the_keys_of_the_help_do_what_it_says(chromium: Chromium, gallery: Gallery) -> None:
    """Pages by number, the search, pause, all steps, the cursor, and the help itself."""
    with chromium.look(gallery.board, alone=True, run="healthy", range="5~20") as page:
        page.wait_drawn("healthy", last=20)
        keyboard = page.page.keyboard
        keyboard.press("?")
        expect(page.tab.get_by_role("dialog")).to_contain_text("Search runs")
        page.picture("help")
        keyboard.press("Escape")
        expect(page.tab.get_by_role("dialog")).to_have_count(0)
        for number, name in enumerate(("Overview", "Layers", "Histograms", "Data", "Resources", "Graph"), 1):
            keyboard.press(str(number))
            expect(page.tab.get_by_role("link", name=name, exact=True)).to_have_attribute(
                "aria-current", "page"
            )
        keyboard.press("1")
        keyboard.press("r")
        page.wait_drawn("healthy", last=STEPS - 1)
        keyboard.press("Space")
        expect(page.tab.get_by_role("status").filter(has_text="Paused")).to_be_visible()
        keyboard.press("Space")
        expect(page.tab.get_by_role("status").filter(has_text="Paused")).to_have_count(0)
        keyboard.press("/")
        expect(page.tab.get_by_role("searchbox", name=re.compile("^Search runs"))).to_be_focused()
        keyboard.press("Escape")
        page.chart("Loss").get_by_role("img").focus()
        keyboard.press("ArrowLeft")
        expect(page.chart("Loss").locator(".chart-value.pointed")).to_be_visible()


@pytest.mark.parametrize("view", ["overview", "layers", "histograms", "resources", "graph"])
def test_tabbing_reaches_the_charts(chromium: Chromium, gallery: Gallery, view: str) -> None:
    """And leaves them again: nothing holds the focus."""
    with chromium.look(gallery.board, alone=True, page=view, run="healthy") as page:
        page.tab.locator("main [role=img][tabindex='0']").first.wait_for()
        reached = 0
        for _ in range(80):
            page.page.keyboard.press("Tab")
            role = page.tab.evaluate("() => document.activeElement?.getAttribute('role')")
            reached += role == "img"
            if reached and role != "img":
                break
        assert 1 <= reached < 80
