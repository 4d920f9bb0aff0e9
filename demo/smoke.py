"""`make demo SMOKE=1`: looks at the page in a headless browser, and takes a picture of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from board import Board, BoardError, fetch
from children import Child

from tests.support.chromium import FLAGS, NOTE_DRAWINGS, OUR_PAGE, NoChromiumError, need_chromium
from tests.support.tensorboard_process import OURS

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

PICTURE = Path(__file__).resolve().parents[1] / "build" / "demo.png"
WAIT_SECS = 90.0
FEWEST_STEPS = 20
WIDTH, HEIGHT = 1280, 900
# A curve that was drawn up to three steps is live.
HAVE_GROWN = """names => names.every((name) =>
  new Set(window.netdebugSeen.filter(([, run]) => run === name).map(([, , last]) => last)).size >= 3)"""


def look(board: Board, trainings: Sequence[Child]) -> None:
    """Raises BoardError, which says what of the page is not as it should be."""
    names = [child.name for child in trainings]
    wait_for_data(board, names, trainings)
    print(f"  smoke   TensorBoard serves the page, and {len(names)} runs with their steps", flush=True)
    try:
        chromium = need_chromium()
    except NoChromiumError as error:
        if os.environ.get("CI"):
            raise BoardError(f"{error} Under CI that is a failure.") from error
        print(f"  smoke   The page was not drawn. {error}", flush=True)
        return
    look_in_browser(board, names, chromium)
    print(f"  smoke   the page draws them, live; the picture is {os.path.relpath(PICTURE)}", flush=True)


def wait_for_data(board: Board, names: Sequence[str], trainings: Sequence[Child]) -> None:
    def steps() -> dict[str, int]:
        runs = json.loads(fetch(f"{board.url}{OURS}runs"))["runs"]
        return {run["name"]: run["last_step"] or 0 for run in runs}

    def is_there() -> bool:
        failed = [child.ending() for child in trainings if child.has_failed]
        if failed:
            raise BoardError(" ".join(failed))
        return all(steps().get(name, 0) >= FEWEST_STEPS for name in names)

    if not holds(is_there):
        raise BoardError(f"After {WAIT_SECS:.0f} s the runs have not come: {steps()}")


def holds(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_SECS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def our_tab(page: Page) -> Frame:
    """Return our page in TensorBoard's, once it is there."""
    deadline = time.monotonic() + WAIT_SECS
    while time.monotonic() < deadline:
        for frame in page.frames:
            if OUR_PAGE in frame.url:
                return frame
        page.wait_for_timeout(100)  # unlike sleep, it lets Playwright hear of new frames
    raise BoardError(f"After {WAIT_SECS:.0f} s TensorBoard has not opened our tab.")


def look_in_browser(board: Board, names: Sequence[str], chromium: str) -> None:
    from playwright.sync_api import Error, sync_playwright

    complaints: list[str] = []

    def note(error: Error) -> None:
        if OURS in (error.stack or ""):  # TensorBoard's own are not for us to judge
            complaints.append(error.message)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(WAIT_SECS * 1000)
        page.on("pageerror", note)
        page.add_init_script(NOTE_DRAWINGS)
        try:
            page.goto(board.page)
            our_tab(page).wait_for_function(HAVE_GROWN, arg=list(names))
        except Error as error:
            complaints.append(str(error).partition("\n")[0])
        PICTURE.parent.mkdir(exist_ok=True)
        page.screenshot(path=PICTURE)
        browser.close()
    if complaints:
        raise BoardError(f"The page is not as it should be (see {PICTURE}): {'; '.join(complaints)}")
