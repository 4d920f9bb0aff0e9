"""A headless Chromium that looks at NetDebug's page and notes what is drawn, and when."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.chromium import FLAGS, NOTE_DRAWINGS, OUR_PAGE, need_chromium

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

SIZE = (1280, 900)
DRAW_SECS = 60.0
TAKE = "() => window.netdebugSeen ? window.netdebugSeen.splice(0) : []"
ORIGIN = "() => performance.timeOrigin / 1000"


class NotDrawnError(RuntimeError):
    """The page showed nothing."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """When the chart of the loss was seen with the data of a run up to a step."""

    at: float
    run: str
    last: int


@dataclass(slots=True)
class Browser:
    version: str
    context: BrowserContext

    @contextmanager
    def look(self, url: str) -> Iterator[Look]:
        """Opens a page; it is closed afterwards."""
        page = self.context.new_page()
        try:
            began = time.time()
            page.goto(url, wait_until="commit")
            yield Look(page, began)
        finally:
            page.close()


@dataclass(slots=True)
class Look:
    """An open page. `began` is when it was asked for."""

    page: Page
    began: float
    sightings: list[Sighting] = field(default_factory=list)

    def collect(self) -> None:
        """Takes over what was drawn since."""
        for frame in self.page.frames:
            if OUR_PAGE in frame.url:
                self.sightings += [Sighting(at, run, int(last)) for at, run, last in frame.evaluate(TAKE)]

    def wait(self, is_enough: Callable[[Look], bool], *, secs: float, pause_secs: float = 0.05) -> bool:
        """Collects until it is enough; whether it ever was."""
        until = time.monotonic() + secs
        while True:
            self.collect()
            if is_enough(self):
                return True
            if time.monotonic() > until:
                return False
            self.page.wait_for_timeout(1000 * pause_secs)

    def wait_for(self, runs: Sequence[str]) -> None:
        """Until all of them have been drawn. Raises NotDrawnError."""
        if not self.wait(lambda look: look.seen() >= set(runs), secs=DRAW_SECS):
            missing = ", ".join(sorted(set(runs) - self.seen()))
            text = " ".join(frame.locator("body").inner_text()[:500] for frame in self.page.frames[-1:])
            raise NotDrawnError(f"the page has not drawn {missing}, but says: {text}")

    def seen(self) -> set[str]:
        return {sighting.run for sighting in self.sightings}


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """With a fresh profile in `folder`. Raises NoChromiumError."""
    path = need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(folder), executable_path=path, headless=True, args=FLAGS,
            viewport={"width": SIZE[0], "height": SIZE[1]},
        )  # fmt: skip
        try:
            context.add_init_script(NOTE_DRAWINGS)
            browser = context.browser
            yield Browser(browser.version if browser else version_of(path), context)
        finally:
            context.close()


def overview(runs: Sequence[str]) -> str:
    """What follows the address of TensorBoard or of our page: the overview of these runs."""
    chosen = [f"p.netdebug.with={urllib.parse.quote(run, safe='')}" for run in runs]
    return "#" + "&".join(["netdebug", *chosen])


def version_of(path: str) -> str:
    return Path(path).name
