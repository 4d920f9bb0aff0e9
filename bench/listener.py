"""Listens to what NetDebug tells its page of a run."""

from __future__ import annotations

import json
import threading
import time
from types import TracebackType

from bench.board import HEADERS, OURS, Board


class Listener:
    """On a thread; `heard` are times with the last step of the run that was told then."""

    def __init__(self, board: Board, run: str) -> None:
        self.heard: list[tuple[float, int]] = []
        self._run = run
        self._news = threading.Condition()
        self._connection = board.connect()
        self._connection.request("GET", f"{OURS}live", headers=HEADERS)
        self._response = self._connection.getresponse()
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()
        self._connection.close()
        self._thread.join(timeout=10)

    def wait_for(self, step: int, *, secs: float) -> bool:
        """Whether this step or a later one was told of within that time."""
        with self._news:
            return self._news.wait_for(lambda: any(last >= step for _, last in self.heard), secs)

    def _listen(self) -> None:
        name = ""
        try:
            while line := self._response.readline():
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data" and name == "run":
                    self._hear(json.loads(value))
        except (OSError, ValueError, AttributeError):
            return  # closed while it was reading

    def _hear(self, row: dict[str, object]) -> None:
        step = row["last_step"]
        if row["run"] == self._run and isinstance(step, int):
            with self._news:
                self.heard.append((time.time(), step))
                self._news.notify_all()
