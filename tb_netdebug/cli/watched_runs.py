"""The runs of a logdir or of a TensorBoard, as `netdebug watch` follows them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

from tb_netdebug.cli.layer_rows import LayerRow, worst_first
from tb_netdebug.cli.vital_signs import VitalSigns, vital_signs
from tb_netdebug.cli.watch_page import RunLine, View
from tb_netdebug.cli.watched_source import RunSource
from tb_netdebug.core.eventlog.reader.errors import ReaderError

# How often the list and the states of runs are refreshed; the chosen run is read at every call.
LIST_SECS = 1.0
# So many runs around the chosen one are listed with their state; each call spends this long on them.
MOST_LISTED = 40
OTHERS_SECS = 0.05


class WatchedRuns:
    """The runs of `place`, and one of them in full: `wanted`, or else the newest.

    The last part of a name is enough. If several runs match, the newest at that time is meant.

    All methods but `move` belong to one thread.
    """

    def __init__(self, place: str, source: RunSource, *, wanted: str | None = None) -> None:
        self.place = place
        self._source = source
        self._wanted = wanted
        self._listed = -math.inf
        self._read = -math.inf
        self._known: tuple[Sequence[str], Sequence[str]] | None = None
        self._lines: dict[str, RunLine] = {}
        self._due: list[str] = []
        self._version: tuple[str, int] | None = None
        self._signs: VitalSigns | None = None
        self._layers: list[LayerRow] = []

    @property
    def names(self) -> list[str]:
        return list(self._source.runs)

    @property
    def complaints(self) -> list[str]:
        return list(self._source.complaints)

    @property
    def chosen(self) -> str | None:
        """The name of the run shown in full; None until it exists."""
        runs, wanted = self._source.runs, self._wanted
        if wanted in runs:
            return wanted
        meant = [name for name in runs if wanted is None or name.endswith(f"/{wanted}")]
        return max(meant, key=lambda name: runs[name].started, default=None)

    def close(self) -> None:
        self._source.close()

    def move(self, by: int) -> None:
        """Choose the run `by` places after this one; may be called from any thread."""
        names, chosen = self.names, self.chosen
        if names:
            self._wanted = names[(names.index(chosen) + by) % len(names) if chosen in names else 0]

    def refresh(self) -> bool:
        """Read what is new, and return whether there is something else to show."""
        list_is_due = time.monotonic() - self._listed >= LIST_SECS
        changed = self._read_list() if list_is_due else False
        changed = self._read_chosen(again=list_is_due) or changed
        return self._read_others() or changed

    def read_all(self) -> None:
        """Read everything that a view shows, however long it takes."""
        self.refresh()
        while self._due:
            self._read_others()

    def view(self) -> View:
        names, chosen = self.names, self.chosen
        place = names.index(chosen) if chosen in names else -1
        first = min(max(place - MOST_LISTED // 2, 0), max(len(names) - MOST_LISTED, 0))
        shown = names[first : first + MOST_LISTED]
        signs = self._signs if self._signs is not None and self._signs.name == chosen else None
        return View(
            logdir=self.place,
            runs=[self._lines.get(name) or RunLine(name, "") for name in shown],
            chosen=place - first,
            more_runs=len(names) - len(shown),
            folder=common_folder(names),
            signs=signs,
            layers=self._layers if signs is not None else (),
            complaints=self.complaints,
            message=self._message(),
        )

    def _message(self) -> str:
        if not self._source.runs:
            return (
                f"There is no run in {self.place} yet. Waiting for one; nd.watch(model, optimizer, "
                "logdir=...) makes it."
            )
        if self.chosen is None:
            return f"There is no run {self._wanted} yet. Waiting for it; Tab shows the others."
        return (
            ""
            if self._signs is not None and self._signs.name == self.chosen
            else f"Reading {self.chosen} ..."
        )

    def _read_list(self) -> bool:
        self._source.refresh()
        self._listed = time.monotonic()
        if self._wanted is not None and self.chosen is not None:
            self._wanted = self.chosen  # pinned: a newer run with the same ending does not replace it
        before, self._known = self._known, (tuple(self.names), tuple(self.complaints))
        # Every run in the list is due for a look; `_read_others` spreads them over several calls.
        self._due = [line.name for line in self.view().runs]
        return before != self._known

    def _read_chosen(self, *, again: bool) -> bool:
        """Read the chosen run, and return whether its display changed.

        With `again`, take its signs even when nothing was added: the run may have become idle.
        """
        name = self.chosen
        if name is None:
            changed, self._signs = self._signs is not None, None
            return changed
        try:
            run = self._source.open(name)
            run.refresh()
            if self._version == (name, run.version) and not again:
                return False
            before, self._signs = self._signs, vital_signs(run)
            if self._version != (name, run.version):
                self._layers = worst_first(run)
            self._version = (name, run.version)
        except (ReaderError, OSError, KeyError) as error:  # KeyError: the run was deleted meanwhile
            before, self._signs = self._signs, VitalSigns(name, "unreadable", complaint=str(error))
            self._layers, self._version = [], None
        self._lines[name] = line_of(self._signs)
        return before is None or line_of(before) != line_of(self._signs) or again

    def _read_others(self) -> bool:
        began, before = time.monotonic(), dict(self._lines)
        while self._due and time.monotonic() - began < OTHERS_SECS:
            name = self._due.pop(0)
            if name != self.chosen and name in self._source.runs:
                self._lines[name] = self._line(name)
        return before != self._lines

    def _line(self, name: str) -> RunLine:
        try:
            details = self._source.glance(name)
            return RunLine(name, details["state"], details["last_step"], plain(details["loss"]))
        except (ReaderError, OSError, KeyError):
            return RunLine(name, "unreadable")


def line_of(signs: VitalSigns) -> RunLine:
    loss = signs.courses.get("loss")
    return RunLine(signs.name, signs.state, signs.last_step, loss.last if loss is not None else None)


def common_folder(names: Sequence[str]) -> str:
    """Return the folder that contains all the runs, ending in a slash; empty when there is none."""
    if len(names) < 2:
        return ""
    folder = os.path.commonpath([name.rpartition("/")[0] for name in names])
    return f"{folder}/" if folder else ""


def plain(value: float | str | None) -> float | None:
    """Return a number that may have arrived as text, because JSON has no NaN; None for other text."""
    try:
        return None if value is None else float(value)
    except ValueError:  # another machine may send anything
        return None
