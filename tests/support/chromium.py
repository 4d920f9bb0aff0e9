"""The Chromium that draws our page for tests, benchmarks and the demo: where it is, and how it is started."""

from __future__ import annotations

import importlib.util
import os
import shutil

from tests.support.tensorboard_process import OURS

OUR_PAGE = f"{OURS}index.html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
# When the chart of the loss was drawn, of which run, and up to which step. The page tells it just before the
# frame that shows it; the task after that comes when the frame is painted.
NOTE_DRAWINGS = """
window.netdebugSeen = [];
window.addEventListener("netdebug:drawn", (event) => {
  setTimeout(() => {
    for (const { run, scalar, last } of event.detail)
      if (scalar === "loss") window.netdebugSeen.push([Date.now() / 1000, run, last]);
  }, 0);
});
"""


class NoChromiumError(RuntimeError):
    """What is missing, and how to get it."""


def need_chromium() -> str:
    """Return the path of a Chromium that Playwright can start. Raise NoChromiumError."""
    if importlib.util.find_spec("playwright") is None:
        raise NoChromiumError("Playwright for Python is missing: pip install playwright.")
    wanted = os.environ.get("NETDEBUG_CHROMIUM")
    found = shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = f"NETDEBUG_CHROMIUM={wanted} is no program" if wanted else "There is no Chromium"
        raise NoChromiumError(f"{missing}: apt install chromium, or set NETDEBUG_CHROMIUM to its path.")
    return found
