"""What it costs a training to be watched from elsewhere, and what it costs when nobody is there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import tb_netdebug as nd
from bench.collector import collecting
from bench.elsewhere import meeting_place
from bench.models import KINDS, Kind, Training
from bench.progress import Session
from bench.recorded import NotRecordedError, columns_of
from bench.results import Column, Part, Promise, Row, Table
from bench.side_by_side import Runner, more_busy, noise_of, one_thread, run_rounds, slower
from tb_netdebug.transport.link import wait_for_deliveries

TITLE = "Watched from elsewhere"
METHOD = (
    "Four copies of the MLP, whose steps are the shortest, train with `watch()` as it comes and one thread "
    "of torch: two of them without `remote=`, one with a collector on this machine, and one with the address "
    "of a collector that is not there. They take turns in short stretches, in an order that changes from "
    "round to round. Of each stretch the median step counts, in processor time of the training thread and "
    "in time by the clock, against the first copy in the same round; the headline is the median over the "
    "rounds. The noise is half of what lies between the quarters of the rounds (25 and 75 %) for the two "
    "copies without `remote=`, or the difference of the two, if that is larger. In the end each file "
    "is read back, and the collector's copy has to be the same."
)
MOST_PERCENT = 0.2
ROUNDS, QUICK_ROUNDS = 64, 3
DELIVERY_SECS = 30.0
COLUMNS = [
    Column("training thread, % more", 2, "less"),
    Column("by the clock, % more", 2, "less"),
    Column("median step, ms", 3, "less"),
    Column("steps"),
]
ALONE = "`watch()`"
AGAIN = "`watch()`, once more"
REMOTE = "`remote=`"
NOBODY = "`remote=`, nobody there"


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=ROUNDS, quick=QUICK_ROUNDS)
    with one_thread():
        running = measured(session, KINDS[0], rounds)
    return Part(
        "remote", TITLE, METHOD, rounds, time.monotonic() - began, promises_of(running), [table_of(running)]
    )


def measured(session: Session, kind: Kind, rounds: int) -> dict[str, Runner]:
    """All four, by their titles, after so many rounds. Raises NotRecordedError."""
    there = session.folder / "there"
    with meeting_place() as place, collecting(there, "", place) as (_, address, _):
        with runners(session.folder / "here", kind, address) as running:
            run_rounds(list(running.values()), session, rounds, title=TITLE)
        wait_for_deliveries(DELIVERY_SECS)
        for name, runner in running.items():
            columns_of(runner.monitor.run_dir, runner.training.steps)
            if name == REMOTE:
                check_copy(runner.monitor.run_dir, there / runner.monitor.run_dir.name)
    return running


@contextmanager
def runners(folder: Path, kind: Kind, address: str) -> Iterator[dict[str, Runner]]:
    with ExitStack() as stack:
        nobody = stack.enter_context(nobodys_port())
        remotes = {ALONE: None, AGAIN: None, REMOTE: address, NOBODY: nobody}
        made = {}
        for number, (title, remote) in enumerate(remotes.items()):
            training = Training(kind)
            monitor = nd.watch(
                training.model, training.optimizer, logdir=folder, run=f"run{number}", remote=remote,
                on_finding="ignore",
            )  # fmt: skip
            stack.callback(monitor.close)
            made[title] = Runner(title, training, monitor)
        yield made


@contextmanager
def nobodys_port() -> Iterator[str]:
    """Nobody else gets it, and who knocks there is refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def check_copy(here: Path, there: Path) -> None:
    """Raises NotRecordedError unless each file of the training is there as it is here."""
    for path in here.glob("events.*"):
        copy = there / path.name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            raise NotRecordedError(f"what the collector has of {path.name} is not the same")


def promises_of(running: dict[str, Runner]) -> list[Promise]:
    alone, remote, nobody = (running[title] for title in (ALONE, REMOTE, NOBODY))
    noise = noise_of(running[AGAIN], alone)
    thread = "MLP: with `remote=` a step costs the training thread more by"
    gone = "MLP: without a collector a step takes longer by (promised: within the noise)"
    return [
        Promise(thread, more_busy(remote, alone), MOST_PERCENT, "%", True),
        Promise(gone, slower(nobody, alone), round(noise, 2), "%", True),
    ]


def table_of(running: dict[str, Runner]) -> Table:
    first = running[ALONE]
    rows = []
    for title, runner in running.items():
        more = [more_busy(runner, first), slower(runner, first)]
        compared: list[float | None] = [None, None] if runner is first else [*more]
        values = [*compared, median(runner.passed) * 1e3, float(runner.training.steps)]
        rows.append(Row(title, values, is_ours=title in (REMOTE, NOBODY)))
    return Table("The MLP with one thread", COLUMNS, rows)
