"""What the matrix has found: counts while it runs, and a table at its end."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict

SECS_BETWEEN = 5.0
MOST_LISTED = 400


class Report:
    """Counts cells; a cell is equal, or differs in something, or hangs."""

    def __init__(self) -> None:
        self.cells: Counter[str] = Counter()
        self.equal: Counter[str] = Counter()
        self.hangs: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.different: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self.expected = 0
        self._told = time.monotonic()

    def add(self, group: str, column: str, name: str, reasons: list[str], *, failed: str = "") -> None:
        """One cell of a column, such as a mode; `reasons` is empty when it is equal."""
        self.cells[column] += 1
        if not reasons:
            self.equal[column] += 1
        elif "hung" in reasons:
            self.hangs[column] += 1
        if reasons:
            self.different[group, column, ", ".join(reasons)].append(name)
        if failed:
            self.faults[failed[:160]] += 1
        if time.monotonic() - self._told > SECS_BETWEEN:
            self._told = time.monotonic()
            say(
                f"{self.cells.total()} of {self.expected} cells, {self.equal.total()} equal, "
                f"{self.hangs.total()} hangs"
            )

    def close(self, secs: float) -> int:
        """The exit code: 0 when everything is equal and there was something."""
        for (group, column, reasons), names in sorted(self.different.items()):
            say(f"{column:<8} {group}: {reasons}: {', '.join(names[:MOST_LISTED])}")
        for text, count in self.faults.most_common():
            say(f"said {count} times: {text}")
        say(f"{'':<10}{'cells':>8}{'equal':>8}{'differ':>8}{'hangs':>8}")
        for column, count in self.cells.items():
            say(
                f"{column:<10}{count:>8}{self.equal[column]:>8}"
                f"{count - self.equal[column] - self.hangs[column]:>8}{self.hangs[column]:>8}"
            )
        cells, equal, hangs = self.cells.total(), self.equal.total(), self.hangs.total()
        say(f"{cells} cells, {equal} equal, {hangs} hangs, in {secs:.0f} s")
        return 0 if cells and cells == equal else 1


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
