"""How fast a training is paused and stepped from the Debugger page, in a real browser."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.board import Board
from bench.browser import chromium
from bench.live import trainer
from bench.progress import Session
from tests.support.chromium import OUR_PAGE

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAUSES, QUICK_PAUSES = 100, 10
HELD_SECS, QUICK_HELD_SECS = 6.0, 2.0
STEP_SECS = 0.01
READY_SECS = 60.0

# Presses the main button of the bar; resolves with the milliseconds until the frame that says so is there.
PRESS = """(word) => new Promise((resolve) => {
  const words = document.querySelector(".debug-words");
  const button = document.querySelector(".debug-buttons .button-main");
  const began = performance.now();
  const done = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began), 0));
  const observer = new MutationObserver(() => {
    if (!words.textContent.startsWith(word)) return;
    observer.disconnect();
    done();
  });
  observer.observe(words, { childList: true, subtree: true, characterData: true, attributes: true });
  button.click();
})"""
# Counts how often the words about the place change, until told to stop.
COUNT = """() => {
  const words = document.querySelector(".debug-words");
  window.netdebugStops = 0;
  let before = words.textContent;
  const look = () => {
    if (words.textContent !== before && words.textContent.startsWith("Paused")) window.netdebugStops += 1;
    before = words.textContent;
  };
  new MutationObserver(look).observe(words, { childList: true, subtree: true, characterData: true });
}"""


def in_the_page(session: Session, board: Board) -> tuple[list[float], float]:
    """Seconds of each pause, and steps a second while the key is held."""
    session.progress.show("The debugger: a training and a browser begin")
    with ExitStack() as stack:
        place = session.folder / "trainee"
        training = trainer(place, "stepped", "", step_secs=STEP_SECS, debugger=board.collector())
        stack.callback(training.kill)
        browser = stack.enter_context(chromium(session.folder / "profile"))
        url = f"{board.url}{OUR_PAGE}#netdebug&p.netdebug.page=debugger"
        look = stack.enter_context(browser.look(url))
        page = look.page
        page.locator(".debug-words").wait_for(timeout=1000 * READY_SECS)
        page.locator(".debug-buttons .button-main:enabled").wait_for(timeout=1000 * READY_SECS)
        page.wait_for_timeout(1000)
        pauses = [paused(page) for _ in range(QUICK_PAUSES if session.is_quick else PAUSES)]
        page.evaluate(PRESS, "Paused")
        rate = steps_a_second(page, QUICK_HELD_SECS if session.is_quick else HELD_SECS)
    return pauses, rate


def paused(page: Page) -> float:
    """Seconds from the press until it is on the screen; it runs again afterwards."""
    millis = float(page.evaluate(PRESS, "Paused"))
    page.evaluate(PRESS, "Running")
    page.wait_for_timeout(50)
    return millis / 1000


def steps_a_second(page: Page, secs: float) -> float:
    page.evaluate(COUNT)
    began = time.monotonic()
    page.keyboard.down("F10")
    page.wait_for_timeout(1000 * secs)
    count = page.evaluate("() => window.netdebugStops")
    passed = time.monotonic() - began
    page.keyboard.up("F10")
    return float(count) / passed
