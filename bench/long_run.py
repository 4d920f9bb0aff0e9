"""How long a long run takes to open and to look around in, and what it costs the server."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.board import Board
from bench.browser import Browser, chromium, overview
from bench.latency import Spread
from bench.long_log import SAMPLED_EVERY, LongLog
from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from tests.support.chromium import OUR_PAGE

TITLE = "A long run"
METHOD = (
    "The event file of a long training is made without the training: records of ten scalars a step, and in "
    f"every {SAMPLED_EVERY}th step samples of all tensors (weights, gradients, updates and activations) from "
    "a stock of real ones, go through NetDebug's own writer, 16 steps a block, with levels of detail and "
    "what is repeated for TensorBoard's own pages. It is read from the page cache, as it was just written. "
    "In each round a TensorBoard is started anew, and a browser opens NetDebug's page as soon as it "
    "answers, while its data server still reads the same file for its own pages: from the navigation to the "
    "first frame with the chart of the loss, in a browser that has seen the page before. Before that, in a "
    "round of its own, the same through TensorBoard's own page, which loads six megabytes first. The first "
    "is the headline, by its slowest round. Then come requests over HTTP for random ranges of steps, from a "
    "thousand to all, their widths evenly spread on a log scale: four scalars of 1000 points, a heat map of "
    "400 columns of all weights, both by turns. The headline is the slowest of all, the first one included. "
    "Memory is that of TensorBoard's process after all that; its data server is another one."
)
PICTURE_SECS = 1.5
ZOOM_MS = 200.0
RESIDENT_MB = 500.0
FULL = LongLog(steps=1_000_000, tensors=200)
QUICK = LongLog(steps=50_000, tensors=50)
ROUNDS = 3
RANGES = 100
SHORTEST_RANGE = 1000
SCALARS = ["loss", "gradient_norm", "time/step", "lr/0"]
RUN = "long"


@dataclass(slots=True)
class Opened:
    """Seconds until the first picture, and bytes of memory."""

    alone: list[float] = field(default_factory=list)
    in_shell: list[float] = field(default_factory=list)
    resident_before: int = 0
    resident: int = 0
    resident_of_helpers: int = 0
    zooms: dict[str, list[float]] = field(default_factory=dict)


def measure(session: Session) -> Part:
    began = time.monotonic()
    log = QUICK if session.is_quick else FULL
    rounds = session.choose(full=ROUNDS, quick=1)
    logdir = session.folder / "logs"
    path = generate(log, logdir, session)
    size = path.stat().st_size
    try:
        opened = open_and_look(log, logdir, session, rounds)
    finally:
        path.unlink()
    tables = [picture_table(log, size, opened), zoom_table(opened), memory_table(opened)]
    promises = promises_of(log, opened)
    return Part("long_run", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


def generate(log: LongLog, logdir: Path, session: Session) -> Path:
    def tell(step: int) -> None:
        session.progress.show(f"{TITLE}: making the file, step {step} of {log.steps}")

    return log.write(logdir / RUN, tell)


def open_and_look(log: LongLog, logdir: Path, session: Session, rounds: int) -> Opened:
    opened = Opened()
    with chromium(session.folder / "profile") as browser:
        for number in range(rounds + 1):
            session.progress.show(f"{TITLE}: first picture, round {number} of {rounds}")
            with Board(logdir) as board:
                board.need_netdebug()
                in_shell = first_picture(browser, board.url + "/")
            if number == 0:
                continue  # the first look of a browser that was just started is not what is measured
            with Board(logdir) as board:
                opened.resident_before = board.resident
                opened.alone.append(first_picture(browser, board.url + OUR_PAGE))
                opened.in_shell.append(in_shell)
                if number == rounds:
                    look_around(log, board, session, opened)
    return opened


def first_picture(browser: Browser, url: str) -> float:
    """Seconds from the navigation to the first frame with the curve."""
    with browser.look(url + overview([RUN])) as look:
        look.wait_for([RUN])
        return min(sighting.at for sighting in look.sightings) - look.began


def look_around(log: LongLog, board: Board, session: Session, opened: Opened) -> None:
    """Zooms to random ranges."""
    count = RANGES // 5 if session.is_quick else RANGES
    for number, (what, query) in enumerate(zooms(log, count)):
        session.progress.show(f"{TITLE}: range {number + 1} of {count}")
        began = time.perf_counter()
        board.columns(query)
        opened.zooms.setdefault(what, []).append(time.perf_counter() - began)
    opened.resident = board.resident
    opened.resident_of_helpers = board.resident_of_helpers


def zooms(log: LongLog, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Queries for random ranges, always the same ones."""
    rng = random.Random(1)
    heat = {"what": "heat", "run": RUN, "kind": "weight", "statistic": "norm", "columns": 400}
    scalars = {"what": "scalars", "run": RUN, "names": SCALARS, "points": 1000}
    for number in range(count):
        width = round(SHORTEST_RANGE * (log.steps / SHORTEST_RANGE) ** rng.random())
        first = rng.randrange(log.steps - width + 1)
        what, query = ("heat map", heat) if number % 2 else ("scalars", scalars)
        yield what, {**query, "first": first, "last": first + width - 1}


def promises_of(log: LongLog, opened: Opened) -> list[Promise]:
    name = f"{log.steps} steps of {log.tensors} tensors"
    slowest = 1000 * max(secs for some in opened.zooms.values() for secs in some)
    return [
        Promise(
            f"{name}: first picture, TensorBoard just started", max(opened.alone), PICTURE_SECS, "s", True
        ),
        Promise(f"{name}: any range of it, slowest request", slowest, ZOOM_MS, "ms", True),
        Promise(f"{name}: memory of TensorBoard afterwards", opened.resident / 1e6, RESIDENT_MB, "MB", True),
    ]


def picture_table(log: LongLog, size: int, opened: Opened) -> Table:
    columns = [
        Column("fastest, s", 2, "less"),
        Column("median, s", 2, "less"),
        Column("slowest, s", 2, "less"),
    ]
    rows = [
        Row(title, [spread.least, spread.median, spread.most], is_ours=True)
        for title, spread in (
            ("NetDebug's page by itself", Spread.of(opened.alone)),
            ("in TensorBoard's own page", Spread.of(opened.in_shell)),
        )
    ]
    return Table(f"First picture of {log.steps} steps, {size / 1e6:.0f} MB", columns, rows)


def zoom_table(opened: Opened) -> Table:
    columns = [
        Column("median, ms", 1, "less"), Column("95 %, ms", 1, "less"), Column("slowest, ms", 1, "less"),
        Column("requests"),
    ]  # fmt: skip
    rows = []
    for title, secs in opened.zooms.items():
        spread = Spread.of([1000 * each for each in secs])
        rows.append(Row(title, [spread.median, spread.p95, spread.most, float(len(secs))], is_ours=True))
    return Table("Random ranges of steps", columns, rows)


def memory_table(opened: Opened) -> Table:
    columns = [Column("resident, MB", 1, "less")]
    rows = [
        Row("TensorBoard with NetDebug, just started", [opened.resident_before / 1e6], is_ours=True),
        Row("the same after everything above", [opened.resident / 1e6], is_ours=True),
        Row("TensorBoard's data server", [opened.resident_of_helpers / 1e6]),
    ]
    return Table("Memory", columns, rows)
