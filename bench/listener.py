"""Listens to what NetDebug tells its page of a run."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from types import TracebackType

from bench.board import Board


class Listener:
    """On a thread; `heard` are times with the last step of the run that was told then."""

    def __init__(self, board: Board, run: str) -> None:
        self.heard: list[tuple[float, int]] = []
        self._run = run
        self._news = threading.Condition()
        self._stream = ExitStack()
        self._events = self._stream.enter_context(board.stream())
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._thread.join(timeout=10)

    def wait_for(self, step: int, *, secs: float) -> bool:
        """Whether this step or a later one was told of within that time."""
        with self._news:
            return self._news.wait_for(lambda: any(last >= step for _, last in self.heard), secs)

    def _listen(self) -> None:
        try:
            while True:
                self._hear(self._events.until("run").data)
        except (OSError, ValueError, AttributeError, EOFError):
            return  # closed while it was reading

    def _hear(self, row: dict[str, object]) -> None:
        step = row["last_step"]
        if row["run"] == self._run and isinstance(step, int):
            with self._news:
                self.heard.append((time.time(), step))
                self._news.notify_all()
