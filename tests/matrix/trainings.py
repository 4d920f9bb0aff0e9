"""The first part of the matrix: every kind × NaN × mode, each compared with the same training alone."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.matrix.cells import Cell, cells_of
from tests.matrix.compare import Left, differences
from tests.matrix.kinds import KINDS
from tests.matrix.processes import HUNG, Job, Pool
from tests.matrix.programs import AGAIN, ALONE
from tests.matrix.report import Report
from tests.matrix.slice import slice_of_cells
from tests.matrix.training import BAD_STEP


class Trainings:
    """After a first hang, the other cells of the same kind and mode count as hanging without being run."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, report: Report) -> None:
        self._arguments = arguments
        self._folder = folder
        self._report = report
        names = [name for name in KINDS if re.search(arguments.only, name)]
        full = cells_of(names, places=arguments.places, handlings=arguments.handlings, modes=arguments.modes)
        self._groups = list(slice_of_cells() if arguments.slice else full)
        self._left: dict[Cell, Left] = {}
        self._hanging: set[tuple[str, str]] = set()

    def run(self) -> None:
        self._report.expected += sum(len(cells) - 1 for cells in self._groups)
        Pool(self._arguments.jobs).run(self._jobs())

    def _jobs(self) -> Iterator[Job]:
        for cells in self._groups:
            for cell in cells:
                yield self._job(cell, cells)

    def _job(self, cell: Cell, cells: list[Cell]) -> Job:
        folder = self._folder / cell.name

        def done(code: int | str) -> None:
            self._left[cell] = Left.of(folder, code)
            if code == HUNG:
                self._hanging.add((cell.kind, cell.mode))
            if not self._arguments.keep:
                shutil.rmtree(folder, ignore_errors=True)
            self._judge(cells)

        def skip() -> bool:
            if (cell.kind, cell.mode) not in self._hanging:
                return False
            self._left[cell] = Left(HUNG, {}, has_recorded=False, said_failed="")
            self._judge(cells)
            return True

        return Job(folder, cell.program(folder, is_fresh=self._arguments.fresh), done, skip)

    def _judge(self, cells: list[Cell]) -> None:
        """Whichever of a group are there, once the one alone is."""
        alone = self._left.get(cells[0])
        if alone is None:
            return
        for cell in cells[1:]:
            watched = self._left.pop(cell, None)
            if watched is not None:
                self._tell(cell, alone, watched)

    def _tell(self, cell: Cell, alone: Left, watched: Left) -> None:
        reasons = differences(alone, watched, is_watched=cell.mode != AGAIN)
        if told := misses_its_point(cell, alone):
            reasons.append(told)
        name = f"{cell.kind}/{cell.place}-{cell.handling}"
        self._report.add("trainings", cell.mode, name, reasons, failed=watched.said_failed)


def misses_its_point(cell: Cell, alone: Left) -> str:
    """A training that was to have a NaN and has none would be equal for no reason."""
    bad = alone.parts.get("bad")
    if bad is None or (cell.place == "none" and alone.code):
        return f"{ALONE} it failed: {alone.parts.get('error') or alone.code}"
    if cell.place == "none":
        return f"{ALONE} it had a NaN in {bad}" if bad else ""
    if alone.parts["error"]:
        return ""  # a NaN may be what ends it
    first = bad[0] if bad else None
    return "" if first == BAD_STEP else f"{ALONE} its first NaN was in {first}"
