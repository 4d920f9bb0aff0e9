"""How soon a thousand runs are listed, and how fast files that grow are followed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.board import Board
from bench.latency import Spread
from bench.long_log import LongLog
from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from tb_netdebug.core.eventlog.reader.logdir import LogDir

TITLE = "Many runs and much data"
METHOD = (
    "Listing: so many short runs lie in a logdir, each with an event file of 20 steps that NetDebug's "
    "writer made. A TensorBoard is started on them, and the list of runs is asked for as the page does, by "
    "the first request that NetDebug gets in this process; the names, sizes and ages of all runs are in the "
    "answer. The time until the contents of all of them were read follows. Following: the event file of a "
    "training of 200 tensors is copied to ten runs that grow by four megabytes in turn, as if ten trainings "
    "wrote; after each piece the reader looks for what is new in that run, one thread, from the page cache. "
    "The headline is all bytes by the sum of those looks (checksums of all records, where each block of "
    "steps is, which tensors there are); with the summary for the list of runs after each look it is the "
    "second row."
)
LIST_SECS = 1.0
MB_A_SECOND = 300.0
RUNS = 1000
QUICK_RUNS = 1000
STEPS_OF_A_RUN = 20
BYTES = 10**9
QUICK_BYTES = 10**8
COPIES = 10
PIECE_BYTES = 4 << 20
SOURCE = LongLog(steps=60_000, tensors=200, sampled_every=16)
QUICK_SOURCE = LongLog(steps=6_000, tensors=200, sampled_every=16)
ALL_READ_SECS = 120.0
ROUNDS = 3


@dataclass(slots=True)
class Listed:
    """Seconds."""

    first: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Followed:
    size: int = 0
    looks: int = 0
    refresh_secs: float = 0.0
    details_secs: float = 0.0
    longest_secs: float = 0.0

    def speed(self, secs: float) -> float:
        """In MB a second."""
        return self.size / 1e6 / secs


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=ROUNDS, quick=1)
    count = QUICK_RUNS if session.is_quick else RUNS
    listed = list_runs(session, count, rounds)
    followed = follow(session)
    promises = [
        Promise(f"{count} runs are listed by a new TensorBoard in", max(listed.first), LIST_SECS, "s", True),
        Promise(
            f"{followed.size / 1e9:.1f} GB in {COPIES} runs that grow are followed with",
            followed.speed(followed.refresh_secs), MB_A_SECOND, "MB/s", False,
        ),
    ]  # fmt: skip
    tables = [list_table(count, listed), follow_table(followed)]
    return Part("many_runs", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


# ---- listing


def list_runs(session: Session, count: int, rounds: int) -> Listed:
    logdir = session.folder / "many"
    for number in range(count):
        LongLog(steps=STEPS_OF_A_RUN, tensors=8, seed=number).write(
            logdir / f"group{number % 10}/run{number}"
        )
        if number % 50 == 0:
            session.progress.show(f"{TITLE}: making run {number} of {count}")
    listed = Listed()
    for number in range(rounds):
        session.progress.show(f"{TITLE}: listing, round {number + 1} of {rounds}")
        with Board(logdir) as board:
            board.need_netdebug()
            time_list(board, count, listed)
    shutil.rmtree(logdir)
    return listed


def time_list(board: Board, count: int, listed: Listed) -> None:
    began = time.perf_counter()
    rows = board.json("runs")["runs"]
    listed.first.append(time.perf_counter() - began)
    if len(rows) != count:
        raise MissingRunsError(f"{len(rows)} of {count} runs were listed")
    while any(row["version"] is None for row in rows):
        if time.perf_counter() - began > ALL_READ_SECS:
            raise MissingRunsError("not all of the runs were read")
        time.sleep(0.05)
        rows = board.json("runs")["runs"]
    listed.read.append(time.perf_counter() - began)


class MissingRunsError(RuntimeError):
    """The list is not whole, so the time means nothing."""


def list_table(count: int, listed: Listed) -> Table:
    columns = [
        Column("fastest, s", 2, "less"),
        Column("median, s", 2, "less"),
        Column("slowest, s", 2, "less"),
    ]
    rows = []
    for title, secs in (("the list of runs", listed.first), ("until all of them were read", listed.read)):
        spread = Spread.of(secs)
        rows.append(Row(title, [spread.least, spread.median, spread.most], is_ours=True))
    return Table(f"{count} runs, by the first request to a TensorBoard just started", columns, rows)


# ---- following


def follow(session: Session) -> Followed:
    """Lets runs grow and looks at each after each piece."""
    log, wanted = (QUICK_SOURCE, QUICK_BYTES) if session.is_quick else (SOURCE, BYTES)
    source = log.write(
        session.folder / "source",
        lambda step: session.progress.show(f"{TITLE}: making the file, step {step} of {log.steps}"),
    )
    places = [session.folder / f"grown/run{number}" for number in range(COPIES)]
    logdir = LogDir([("", str(session.folder / "grown"))])
    followed = Followed()
    for place, size in growing(source, places, wanted):
        if place.name not in logdir.runs:
            logdir.refresh()
        look(logdir, place.name, followed)
        followed.size += size
        session.progress.show(f"{TITLE}: following, {followed.size / 1e6:.0f} of {wanted / 1e6:.0f} MB")
    shutil.rmtree(session.folder / "grown")
    source.unlink()
    return followed


def growing(source: Path, places: Sequence[Path], wanted: int) -> Iterator[tuple[Path, int]]:
    """Appends pieces of the source to a file in each place in turn, until all of them have the wanted number
    of bytes together; yields after each piece where it went, and its size."""
    with ExitStack() as stack:
        copies = []
        for place in places:
            place.mkdir(parents=True)
            copies.append(stack.enter_context((place / source.name).open("wb", buffering=0)))
        original = stack.enter_context(source.open("rb"))
        while wanted > 0 and (piece := original.read(PIECE_BYTES)):
            for place, copy in zip(places, copies, strict=True):
                wanted -= copy.write(piece)
                yield place, len(piece)


def look(logdir: LogDir, name: str, followed: Followed) -> None:
    run = logdir.open(name)
    began = time.perf_counter()
    run.refresh()
    refreshed = time.perf_counter()
    run.details()
    followed.refresh_secs += refreshed - began
    followed.details_secs += time.perf_counter() - refreshed
    followed.longest_secs = max(followed.longest_secs, refreshed - began)
    followed.looks += 1


def follow_table(followed: Followed) -> Table:
    columns = [
        Column("MB/s", 0, "more"),
        Column("s", 2, "less"),
        Column("longest look, ms", 1, "less"),
        Column("looks"),
    ]
    both = followed.refresh_secs + followed.details_secs
    looks = float(followed.looks)
    rows = [
        Row(
            "what is new",
            [
                followed.speed(followed.refresh_secs),
                followed.refresh_secs,
                1000 * followed.longest_secs,
                looks,
            ],
            is_ours=True,
        ),
        Row("and the summary of the run", [followed.speed(both), both, None, looks], is_ours=True),
    ]
    return Table(f"{followed.size / 1e6:.0f} MB, {PIECE_BYTES >> 20} MiB at a time", columns, rows)
