"""How the trainings are doing, a line each, on the terminal of the demo."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from children import Child
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.sparkline import sparkline
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.training.console import number

COURSE_WIDTH = 24
# Where the output is a file, a line now and then is enough.
PLAIN_SECS = 30.0
ENDED = "All trainings have ended. TensorBoard stays until you press Ctrl-C."


class Status:
    """`update` several times a second; a child that has died is reported once, above the lines."""

    def __init__(self, folder: Path, trainings: Sequence[Child], *, seconds: float) -> None:
        self._runs = LogDir([("", str(folder))])
        self._trainings = trainings
        self._seconds = seconds
        self._began = time.monotonic()
        self._reported: set[str] = set()
        self._plain_due = 0.0
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Status:
        print()
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        self._runs.close()

    def update(self) -> None:
        self._runs.refresh()
        for child in self._trainings:
            if child.has_failed and child.name not in self._reported:
                self._reported.add(child.name)
                self._console.print(Text(harmless(child.ending()), "bold red"))
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)
        elif time.monotonic() >= self._plain_due:
            self._plain_due = time.monotonic() + PLAIN_SECS
            told = [f"{child.name} {' '.join(self._cells(child)[:2])}" for child in self._trainings]
            print("; ".join(told), flush=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for child in self._trainings:
            step, loss, course = self._cells(child)
            style = "bold red" if loss.endswith(("NaN", "Inf")) else ""
            table.add_row(f"  {child.name}", step, Text(loss, style), Text(course, "cyan"))
        table.add_row()
        grid = Table.grid()
        grid.add_row(table)
        grid.add_row(Text(f"  {self._closing()}", "dim"))
        return grid

    def _cells(self, child: Child) -> tuple[str, str, str]:
        """Step, loss and its course."""
        if child.name not in self._runs.runs:
            return ("starting", "", "") if child.is_running else ("not started", "", "")
        run = self._runs.open(child.name)
        run.refresh()
        found = run.scalars(["loss"], points=COURSE_WIDTH * 4).scalars.get("loss")
        if found is None or not len(found.last):
            return "starting", "", ""
        values = [math.nan if bad else mean for mean, bad in zip(found.mean.tolist(), found.bad, strict=True)]
        step = f"step {found.last[-1]:.0f}"
        return step, f"loss {number(float(found.end[-1]))}", sparkline(values, COURSE_WIDTH)

    def _closing(self) -> str:
        if not any(child.is_running for child in self._trainings):
            return ENDED
        passed = min(time.monotonic() - self._began, self._seconds)
        return f"{clock(passed)} of {clock(self._seconds)}. Ctrl-C ends everything."


def clock(secs: float) -> str:
    return f"{secs // 60:.0f}:{secs % 60:02.0f}"
