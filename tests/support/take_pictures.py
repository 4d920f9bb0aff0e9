"""Takes the pictures of the README: `python -m tests.support.take_pictures`.

Trains the networks of the demo for a while, opens what they recorded in TensorBoard, and writes
docs/pictures/*.png.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.support.browser import Chromium
from tests.support.chromium import FLAGS, need_chromium
from tests.support.streamed import Home
from tests.support.tensorboard_process import TensorBoard

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
PROGRAMS = ("healthy/digits.py", "sick/vanishing_gradients.py", "sick/learning_rate_high.py")
SECONDS = 40
SIZE = (1280, 860)
# Of the picture of the debugger.
STEPS, TENSOR = 9, "output.weight"
# (file, parameters of the page's deep link, dark)
VIEWS = (
    ("finding", {"page": "overview", "run": "deep-sigmoid"}, False),
    ("overview", {"page": "overview", "run": "learning-rate-too-high"}, False),
    ("overview-dark", {"page": "overview", "run": "learning-rate-too-high"}, True),
    ("layers", {"page": "layers", "run": "deep-sigmoid"}, False),
    ("histograms", {"page": "histograms", "run": "healthy"}, False),
    ("graph", {"page": "graph", "run": "healthy"}, False),
)
# Those that show the chart of the loss, which is below the findings.
SCROLLED = ("overview", "overview-dark")


def main() -> None:
    with tempfile.TemporaryDirectory() as logdir, sync_playwright() as playwright:
        record(Path(logdir))
        browser = playwright.chromium.launch(executable_path=need_chromium(), args=FLAGS)
        with TensorBoard("--logdir", logdir) as board:
            for name, link, dark in VIEWS:
                with Chromium(browser).look(board, link, size=SIZE, dark=dark) as look:
                    if name in SCROLLED:
                        look.tab.locator(".u-wrap").first.evaluate("plot => plot.scrollIntoView(false)")
                    look.page.wait_for_timeout(3000)  # until all has been drawn: the canvases do not say
                    look.page.screenshot(path=PICTURES / f"{name}.png")
        step_through(browser)
        browser.close()


def step_through(browser: Browser) -> None:
    """A training that is paused before a layer, with one of its tensors open."""
    with (
        tempfile.TemporaryDirectory() as logdir,
        Home() as home,
        TensorBoard("--logdir", logdir, env=home.env) as board,
        Chromium(browser).look(board, size=SIZE, page="debugger") as look,
    ):
        command = [sys.executable, str(ROOT / "demo" / PROGRAMS[0]), "--logdir", logdir]
        training = subprocess.Popen(command, env={**os.environ, **home.env})
        try:
            pause = look.tab.get_by_role("button", name="Pause", exact=True)
            pause.wait_for(timeout=120_000)  # the training imports torch first
            look.page.wait_for_timeout(20_000)  # so that it has learned something
            pause.click()
            for _ in range(STEPS):
                look.page.wait_for_timeout(500)
                look.tab.get_by_role("button", name="Layer", exact=True).click()
            look.tab.get_by_role("tab", name="Tensors").click()
            look.tab.get_by_placeholder("Search names").fill(TENSOR)
            look.tab.get_by_role("tabpanel").get_by_role("button", name=TENSOR).first.click()
            look.page.wait_for_timeout(3000)
            look.page.screenshot(path=PICTURES / "debugger.png")
        finally:
            training.kill()
            training.wait()


def record(logdir: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "demo" / program), "--logdir", str(logdir), "--seconds", str(SECONDS)]
        )
        for program in PROGRAMS
    ]
    for program in programs:
        if program.wait() != 0:
            sys.exit(f"{program.args!r} has failed")


if __name__ == "__main__":
    main()
