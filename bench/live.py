"""How soon a finished batch is seen in the browser."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.board import Board
from bench.browser import Look, Sighting, chromium, overview
from bench.elsewhere import meeting_place
from bench.latency import Lateness, delays_of
from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from tb_netdebug.core.eventlog.reader.run import read_run

TITLE = "From a batch to the screen"
METHOD = (
    "Networks train at 25 steps a second, each in a process of its own with `nd.watch` as it comes. A real "
    "TensorBoard follows them, and a headless Chromium of 1280 × 900 pixels has its page open at NetDebug's "
    "overview with all of the runs chosen. The page says what the chart of the loss shows before the "
    "browser paints that frame; the clock is read in the first task after it. The delay of a step is the "
    "time from the wall time that the trainer recorded at its end to the first frame that shows it; all "
    "steps count from when the page has shown each run until training ends. The observation ends when the "
    "page has shown the last step of all runs, at the latest ten seconds after them; steps that were never "
    "seen count as seen then. The route by which TensorBoard's own pages get scalars is asked twice a "
    "second meanwhile, and judged in the same way: it is what they could show if they asked as often. They "
    "ask every 30 seconds, and only when auto-reload was switched on. Through the stream: the training "
    "writes into a folder of its own, and its agent sends what it writes to the collector in TensorBoard, "
    "over loopback. Trainers, agent, TensorBoard and browser share this machine's cores and clock."
)
LIMIT_MS = 500.0
STEP_SECS = 0.04
# How many runs, and whether they come through the stream.
OBSERVED = ((1, False), (8, False), (1, True))
SECS = 150
QUICK_SECS = 20
LAST_LOOK_SECS = 10.0
PEER_SECS = 0.5
TRAINEE = Path(__file__).with_name("live_trainee.py")


class TraineeError(RuntimeError):
    """A training ended before its time."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of some runs on our page, and of the first of them on TensorBoard's route."""

    title: str
    logdir: Path
    runs: list[str]
    since: float
    until: float
    ours: list[Sighting]
    peer: list[Sighting]
    browser: str


def measure(session: Session) -> Part:
    began = time.monotonic()
    secs = QUICK_SECS if session.is_quick else SECS
    promises, tables = [], []
    for count, is_remote in OBSERVED:
        seen = observe(session, count, secs, is_remote=is_remote)
        ours, peer = lateness(seen, seen.ours, seen.runs), lateness(seen, seen.peer, seen.runs[:1])
        text = f"{seen.title}: from the end of a batch to the screen, 95th percentile"
        promises.append(Promise(text, ours.p95, LIMIT_MS, "ms", True))
        tables.append(table_of(seen, ours, peer))
    return Part("live", TITLE, METHOD, 1, time.monotonic() - began, promises, tables)


def observe(session: Session, count: int, secs: float, *, is_remote: bool = False) -> Observation:
    """Trains so many networks for some seconds under the eyes of a browser."""
    title = f"{many(count)} live, through the stream" if is_remote else f"{many(count)} live"
    runs = [f"run{number}" for number in range(1, count + 1)]
    logdir = session.folder / title.replace(" ", "-")
    logdir.mkdir(parents=True)
    with ExitStack() as stack:
        if is_remote:
            stack.enter_context(meeting_place())
        board = stack.enter_context(Board(logdir)).need_netdebug()
        session.progress.show(f"{TITLE}: {title}, training begins")
        place = Path(f"{logdir}-elsewhere") if is_remote else logdir
        trainers = stack.enter_context(training(place, runs, remote=board.collector() if is_remote else ""))
        browser = stack.enter_context(chromium(session.folder / f"profile of {title}"))
        peer = stack.enter_context(PeerPoll(board, runs[0]))
        look = stack.enter_context(browser.look(f"{board.url}/{overview(runs)}"))
        look.wait_for(runs)
        since = time.time()
        for passed in watch_for(look, secs):
            session.progress.show(f"{TITLE}: {title}, {passed:.0f} of {secs:.0f} s")
        stop(trainers)
        ended = last_steps(logdir, runs)
        look.wait(lambda now: reached(now.sightings) >= ended.items(), secs=LAST_LOOK_SECS)
        return Observation(
            title, logdir, runs, since, time.time(), look.sightings, peer.sightings, browser.version
        )


@contextmanager
def training(logdir: Path, runs: Sequence[str], *, remote: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Trainers that have all done their first step; ended in any case."""
    with ExitStack() as stack:
        trainers = [stack.enter_context(trainer(logdir, run, remote)) for run in runs]
        try:
            for one in trainers:
                assert one.stdout is not None
                if one.stdout.readline() != "training\n":
                    raise TraineeError("a training did not begin")
            yield trainers
        finally:
            for one in trainers:
                one.kill()


def trainer(
    logdir: Path, run: str, remote: str, *, step_secs: float = STEP_SECS, debugger: str = ""
) -> subprocess.Popen[str]:
    command = [sys.executable, str(TRAINEE), str(logdir), run, str(step_secs), *filter(None, [debugger])]
    env = {**os.environ, "NETDEBUG_REMOTE": remote}
    # A session of its own: Ctrl-C is for us, and we end it.
    return subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def stop(trainers: Sequence[subprocess.Popen[str]]) -> None:
    """Lets them end properly. Raises TraineeError when one did not train to the end."""
    for trainer in trainers:
        if trainer.poll() is not None:
            raise TraineeError(f"a training ended with exit code {trainer.returncode}")
        assert trainer.stdin is not None
        trainer.stdin.close()
    for trainer in trainers:
        trainer.wait(timeout=60)


def watch_for(look: Look, secs: float) -> Iterator[float]:
    """Collects what is drawn; yields the seconds passed, about once a second."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < secs:
        yield passed
        look.wait(lambda now: False, secs=min(1.0, secs - passed), pause_secs=0.5)


def last_steps(logdir: Path, runs: Sequence[str]) -> dict[str, int]:
    return {run: int(read_run(logdir / run).main.steps[-1]) for run in runs}


def reached(sightings: Sequence[Sighting]) -> set[tuple[str, int]]:
    return {(sighting.run, sighting.last) for sighting in sightings}


@dataclass(slots=True)
class PeerPoll:
    """Asks TensorBoard for the loss of a run twice a second, on a thread."""

    board: Board
    run: str
    sightings: list[Sighting] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> PeerPoll:
        self._thread = threading.Thread(target=self._poll, name="peer", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        assert self._thread is not None
        self._thread.join()

    def _poll(self) -> None:
        while not self._end.wait(PEER_SECS):
            try:
                reply = self.board.get("/data/plugin/scalars/scalars", run=self.run, tag="loss")
            except OSError:
                continue
            if reply.status == 200 and (points := reply.json()):
                self.sightings.append(Sighting(time.time(), self.run, points[-1][1]))


def lateness(seen: Observation, sightings: Sequence[Sighting], runs: Sequence[str]) -> Lateness:
    """Over all steps of the runs."""
    delays, unseen = [], 0
    for run in runs:
        columns = read_run(seen.logdir / run).main
        moments = [(one.at, one.last) for one in sightings if one.run == run]
        found, missed = delays_of(
            columns.steps, columns.wall_times, moments, since=seen.since, until=seen.until
        )
        delays.append(found)
        unseen += missed
    return Lateness.of(np.concatenate(delays), unseen)


def table_of(seen: Observation, ours: Lateness, peer: Lateness) -> Table:
    rows = [
        row_of("NetDebug's page", ours, len(seen.ours) // len(seen.runs), is_ours=True),
        row_of("TensorBoard's scalars, asked twice a second", peer, len(seen.peer), is_ours=False),
    ]
    columns = [
        Column("median, ms", 0, "less"), Column("95 %, ms", 0, "less"), Column("latest, ms", 0, "less"),
        Column("steps"), Column("steps never seen"), Column("frames or answers of a run"),
    ]  # fmt: skip
    return Table(f"{seen.title}, Chromium {seen.browser}", columns, rows)


def row_of(title: str, late: Lateness, sightings: int, *, is_ours: bool) -> Row:
    counts = [late.steps, late.unseen, sightings]
    return Row(title, [late.median, late.p95, late.most, *map(float, counts)], is_ours)


def many(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
