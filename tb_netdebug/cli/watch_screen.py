"""The full-screen view of `netdebug watch`; a thread reads, the main thread draws and takes keys."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console, Group
from rich.live import Live

from tb_netdebug.cli.keyboard import Keyboard
from tb_netdebug.cli.watch_page import Page, View
from tb_netdebug.cli.watched_runs import WatchedRuns

# Looking for news and noticing them, with reading and drawing, takes less than 0.3 s in all.
NEWS_SECS = 0.1
KEY_SECS = 0.05
# Redraw this often even without news, for texts such as "5 s ago".
REDRAW_SECS = 1.0
FAREWELL_SECS = 1.0
MOVES = {"next": 1, "previous": -1}


class Screen:
    """Draws the view and answers keys while another thread reads, which may be slow for a big run or disk."""

    def __init__(self, runs: WatchedRuns, console: Console, *, most_layers: int) -> None:
        self._runs = runs
        self._console = console
        self._most_layers = most_layers
        self._view = View(runs.place, message=f"Looking for runs in {runs.place} ...")
        self._news = threading.Event()
        self._has_moved = threading.Event()
        self._has_ended = threading.Event()
        self._error: BaseException | None = None

    def show(self) -> None:
        """Show the view until the user quits. The terminal is restored whatever happens."""
        reading = threading.Thread(target=self._follow, name="netdebug-watch", daemon=True)
        with sigterm_as_exit(), Keyboard() as keyboard, self._live() as live:
            reading.start()
            try:
                self._draw_until_quit(keyboard, live)
            finally:
                self._has_ended.set()
                self._has_moved.set()
        reading.join(FAREWELL_SECS)
        if self._error is not None:
            raise self._error

    def _live(self) -> Live:
        return Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop")

    def _draw_until_quit(self, keyboard: Keyboard, live: Live) -> None:
        drawn, size = -REDRAW_SECS, self._console.size
        while self._error is None:
            is_late = time.monotonic() - drawn >= REDRAW_SECS
            if is_late or self._news.is_set() or size != self._console.size:
                self._news.clear()
                drawn, size = time.monotonic(), self._console.size
                live.update(self._drawing(), refresh=True)
            for key in keyboard.wait(KEY_SECS):
                if key == "quit":
                    return
                self._runs.move(MOVES[key])
                self._has_moved.set()

    def _drawing(self) -> Group:
        width, height = self._console.size
        ascii_only = is_ascii(self._console)
        # A new page each time: the size of the terminal may have changed.
        page = Page(width, height, most_layers=self._most_layers, ascii_only=ascii_only)
        return Group(*page.lines(self._view))

    def _follow(self) -> None:
        try:
            while not self._has_ended.is_set():
                if self._runs.refresh() or self._has_moved.is_set():
                    self._has_moved.clear()
                    self._view = self._runs.view()
                    self._news.set()
                self._has_moved.wait(NEWS_SECS)
        except BaseException as error:  # raised again by show()
            self._error = error


def is_ascii(console: Console) -> bool:
    """Return whether the terminal cannot show bars and arrows."""
    return not console.encoding.lower().startswith("utf")


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Turn SIGTERM into SystemExit inside the block, so that `finally` clauses restore the terminal."""
    # Python sets signal handlers only on the main thread.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, exit_by)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_by(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
