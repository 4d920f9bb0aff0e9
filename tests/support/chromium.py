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
        raise NoChromiumError(f"{missing}: apt install chromium, or name the path of one in NETDEBUG_CHROMIUM.")
    return found
