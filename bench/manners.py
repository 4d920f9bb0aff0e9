"""What TensorBoard pays for NetDebug being there, and what one page pays for what others ask."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.board import Board
from bench.latency import Spread, delays_of
from bench.listener import Listener
from bench.long_log import LongLog
from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from bench.rounds import paired_difference, turn
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tests.support.tensorboard_process import OURS

TITLE = "Manners"
METHOD = (
    "Start: TensorBoard is started on the same small logdir with NetDebug's entry point as it is installed, "
    "and with that one left out, in an order that changes from round to round; the time is that from the "
    "start of the process to the answer that lists the plugins, the headline the median of the differences "
    "within a round. Stream: a training writes twenty steps a second and brings each to the file at once, "
    "and a client listens to the stream that tells pages of them; the delay of a step is the time from when "
    "it is in the file to the event that tells of it or a later one (a run is told of at most ten times a "
    "second). First nobody else is there; then four more clients ask for as much as they may, each one "
    "request after the other: heat maps of 4000 columns of all 200 tensors, 80 000 points of scalars, 10 "
    "000 histograms, and the graph of 500 modules, of a run of 100 000 steps. The headline is the longest "
    "delay then, less the longest without."
)
START_MS = 100.0
STALL_MS = 100.0
ROUNDS = 11
QUICK_ROUNDS = 2
SECS = 30
QUICK_SECS = 6
STEP_SECS = 0.05
SETTLING_SECS = 30.0
HEAVY = LongLog(steps=100_000, tensors=200, modules=500)
QUICK_HEAVY = LongLog(steps=20_000, tensors=200, modules=500)
HAMMER = Path(__file__).with_name("hammer.py")
WITH, WITHOUT = "with NetDebug", "without"
# Both ways run the same lines; they differ in the name that is left out.
LEAVE_OUT = """
from tensorboard import default
all_of_them = default._iter_entry_points
default._iter_entry_points = lambda group: [one for one in all_of_them(group) if one.name != {!r}]
"""


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=ROUNDS, quick=QUICK_ROUNDS)
    starts = start_times(session, rounds)
    heard = stream_times(session)
    late, quiet = (heard[name].spread.most for name in (CROWDED, ALONE))
    slower = 1000 * paired_difference(starts[WITH], starts[WITHOUT])
    promises = [
        Promise("TensorBoard starts later because of NetDebug by", slower, START_MS, "ms", True),
        Promise("heavy requests of others delay the stream of a page by", late - quiet, STALL_MS, "ms", True),
    ]
    tables = [start_table(starts), stream_table(heard), load_table(heard[CROWDED])]
    return Part("manners", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


# ---- start


def start_times(session: Session, rounds: int) -> dict[str, list[float]]:
    """Seconds, after one start of each that does not count."""
    logdir = session.folder / "small"
    LongLog(steps=100, tensors=8).write(logdir / "run")
    secs: dict[str, list[float]] = {WITH: [], WITHOUT: []}
    for number in range(-1, rounds):
        session.progress.show(f"{TITLE}: start, round {number + 1} of {rounds}")
        for name in turn(list(secs), number):
            taken = start_secs(logdir, name)
            secs[name] += [taken] if number >= 0 else []
    return secs


def start_secs(logdir: Path, name: str) -> float:
    preamble = LEAVE_OUT.format("netdebug" if name == WITHOUT else "")
    with Board(logdir, preamble=preamble) as board:
        if name == WITH:
            board.need_netdebug()
        return board.start_secs


def start_table(starts: dict[str, list[float]]) -> Table:
    columns = [
        Column("fastest, s", 3, "less"),
        Column("median, s", 3, "less"),
        Column("slowest, s", 3, "less"),
    ]
    rows = []
    for name, secs in starts.items():
        spread = Spread.of(secs)
        rows.append(Row(name, [spread.least, spread.median, spread.most], name == WITH))
    return Table("From the start of TensorBoard to its list of plugins", columns, rows)


# ---- stream

ALONE, CROWDED = "nobody else", "four clients that ask for much"


@dataclass(slots=True)
class Heard:
    """Delays in milliseconds; the answers that others got meanwhile, with their megabytes."""

    spread: Spread
    steps: int
    others: dict[str, tuple[int, float]] = field(default_factory=dict)


def stream_times(session: Session) -> dict[str, Heard]:
    logdir = session.folder / "stream"
    log = QUICK_HEAVY if session.is_quick else HEAVY
    log.write(
        logdir / "heavy", lambda step: session.progress.show(f"{TITLE}: making step {step} of {log.steps}")
    )
    secs = QUICK_SECS if session.is_quick else SECS
    with Board(logdir) as board:
        board.need_netdebug().json("run", run="heavy")
        session.progress.show(f"{TITLE}: a stream alone")
        heard = {ALONE: listen(board, logdir / "alone", secs)}
        session.progress.show(f"{TITLE}: a stream beside four clients")
        with crowd(board, "heavy") as others:
            heard[CROWDED] = listen(board, logdir / "crowded", secs)
            told, _ = others.communicate()
        heard[CROWDED].others = answers_of(told)
    return heard


@contextmanager
def crowd(board: Board, run: str) -> Iterator[subprocess.Popen[str]]:
    """The clients, in a process of their own; all have had an answer. Its standard input ends them."""
    command = [sys.executable, str(HAMMER), f"{board.url}{OURS}", run]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "asking\n":
                raise CrowdError("the other clients got no answer")
            yield process
        finally:
            process.kill()


def answers_of(told: str) -> dict[str, tuple[int, float]]:
    """What the clients said at last: by the kind of request the number of answers, and megabytes."""
    return {name: (count, size) for name, (count, size) in json.loads(told).items()}


class CrowdError(RuntimeError):
    """Nobody disturbs, so the delays mean nothing."""


def listen(board: Board, run_dir: Path, secs: float) -> Heard:
    """Writes steps for so long and listens to what is told of them."""
    writer = EventWriter(run_dir, strict=True)
    try:
        with Listener(board, run_dir.name) as listener:
            write_step(writer, 0)
            if not listener.wait_for(0, secs=SETTLING_SECS):
                raise CrowdError(f"the run {run_dir.name} was never told of")
            began = time.monotonic()
            times: list[float] = []
            while time.monotonic() < began + secs:
                time.sleep(max(0.0, began + STEP_SECS * len(times) - time.monotonic()))
                write_step(writer, len(times) + 1)
                times.append(time.time())
            listener.wait_for(len(times), secs=SETTLING_SECS)
            until = time.time()
    finally:
        writer.close()
    steps = np.arange(1, len(times) + 1)
    delays, unheard = delays_of(steps, np.array(times), listener.heard, since=times[0], until=until)
    if unheard:
        raise CrowdError(f"{unheard} of {len(steps)} steps were never told of")
    return Heard(Spread.of((1000 * delays).tolist()), len(steps))


def write_step(writer: EventWriter, step: int) -> None:
    """It is in the file afterwards."""
    writer.put(StepRecord(step, time.time(), {"loss": 1.0 / (1 + step)}))
    writer.flush()


def stream_table(heard: dict[str, Heard]) -> Table:
    columns = [
        Column("median, ms", 1, "less"), Column("99 %, ms", 1, "less"), Column("longest, ms", 1, "less"),
        Column("steps"),
    ]  # fmt: skip
    rows = [
        Row(name, [one.spread.median, one.spread.p99, one.spread.most, float(one.steps)], is_ours=True)
        for name, one in heard.items()
    ]
    return Table("From a step in the file to the event that tells of it", columns, rows)


def load_table(heard: Heard) -> Table:
    columns = [Column("answers"), Column("MB each", 2)]
    rows = [
        Row(name, [float(count), size / max(count, 1)], is_ours=True)
        for name, (count, size) in heard.others.items()
    ]
    return Table("What the four clients got meanwhile", columns, rows)
