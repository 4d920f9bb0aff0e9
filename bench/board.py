"""A TensorBoard with the NetDebug in it that is installed, and what benchmarks ask of one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import psutil

from tests.support.tensorboard_process import BoardError, TensorBoard


class Board(TensorBoard):
    """Ready when made. `start_secs` is the time from the start of the process until it lists `plugins`."""

    patience_secs = reply_secs = 120.0

    def __init__(self, logdir: Path, *, preamble: str = "") -> None:
        began = time.perf_counter()
        super().__init__(
            "--logdir",
            str(logdir),
            preamble=preamble,
            env={"PYTHONPATH": "", **os.environ},  # finds what this process finds, not the checkout
            start_new_session=True,  # Ctrl-C is for us, and we end it
        )
        try:
            self.plugins: dict[str, Any] = self.json("/data/plugins_listing")
        except BaseException:
            self.stop()
            raise
        self.start_secs = time.perf_counter() - began

    def need_netdebug(self) -> Board:
        """Raises BoardError unless our tab is there."""
        if "netdebug" not in self.plugins:
            raise BoardError("TensorBoard does not know NetDebug: install it first, as `make bench` does")
        return self

    @property
    def resident(self) -> int:
        """Bytes of memory of TensorBoard's own process; its data server is another one."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def resident_of_helpers(self) -> int:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return sum(child.memory_info().rss for child in children)

    def collector(self) -> str:
        """Where it takes the records of trainings elsewhere. Raises BoardError when it does not."""
        until = time.monotonic() + self.patience_secs
        while time.monotonic() < until:
            told = self.json("runs")["collector"]
            if told["address"] or told["trouble"]:
                break
            time.sleep(0.1)
        if not told["address"]:
            raise BoardError(told["trouble"] or "TensorBoard has not started its collector")
        return str(told["address"])

    def columns(self, *queries: dict[str, Any]) -> list[dict[str, Any]]:
        """The heads of the answers. Raises BoardError when one of them is an error."""
        body = self.body("columns", q=queries)
        size = int.from_bytes(body[:4], "little")
        answers: list[dict[str, Any]] = json.loads(body[4 : 4 + size])["answers"]
        failed = [answer["error"] for answer in answers if "error" in answer]
        if failed:
            raise BoardError(f"a query was not answered: {failed[0]}")
        return answers
