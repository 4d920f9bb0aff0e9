"""Takes the pictures of the README: `python -m tests.support.take_pictures`.

Trains the networks of the demo for a while, opens what they recorded in TensorBoard, and writes
docs/pictures/*.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.support.browser import FLAGS, NAMES, Chromium
from tests.support.tensorboard_process import TensorBoard

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
PROGRAMS = ("healthy/digits.py", "sick/vanishing_gradients.py", "sick/learning_rate_high.py")
SECONDS = 40
SIZE = (1280, 860)
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
        chromium = next(filter(None, map(shutil.which, NAMES)), None)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with TensorBoard("--logdir", logdir) as board:
            for name, link, dark in VIEWS:
                with Chromium(browser).look(board, size=SIZE, dark=dark, **link) as look:
                    if name in SCROLLED:
                        look.tab.locator(".u-wrap").first.evaluate("plot => plot.scrollIntoView(false)")
                    look.page.wait_for_timeout(3000)  # until all has been drawn: the canvases do not say
                    look.page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


def record(logdir: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "demo" / program), "--logdir", str(logdir), "--seconds", str(SECONDS)]
        )
        for program in PROGRAMS
    ]
    for program in programs:
        if program.wait() != 0:
            sys.exit(f"{program.args} has failed")


if __name__ == "__main__":
    main()
